"""Shows the stages of a lowering as they happen, and keeps their times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from aoti_plugins.cli._output import seconds_text
from aoti_plugins.hooks import hookimpl
from aoti_plugins.types import ProgressEvent


class StageDisplay:
    """One line per stage: a spinner while it runs, its time when it is over.

    Registered as a plugin, it follows the stages of the delegates; ``stage`` adds the steps around
    them. On a stream that is not a terminal, only finished stages are printed.
    """

    def __init__(self, console: Console) -> None:
        self.stages: list[dict[str, Any]] = []
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> StageDisplay:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @hookimpl
    def aoti_progress(self, event: ProgressEvent) -> None:
        """Show one event of a delegate's lowering."""
        name = event.stage
        if event.partitions > 1:
            name = f"{event.stage} (partition {event.partition + 1} of {event.partitions})"
        label = f"{event.device} {event.method}: {name}"
        if event.status == "start":
            self._start(label)
        else:
            self._end(label, event.seconds or 0.0, event.status == "fail", event.detail)

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[None]:
        """Show a step that is not a delegate's."""
        self._start(label)
        start = time.perf_counter()
        failed = True
        try:
            yield
            failed = False
        finally:
            self._end(label, time.perf_counter() - start, failed, "")

    def _start(self, label: str) -> None:
        indent = "  " * len(self._tasks)
        self._tasks[label] = self._progress.add_task(f"{indent}{label}", total=None)

    def _end(self, label: str, seconds: float, failed: bool, detail: str) -> None:
        task = self._tasks.pop(label, None)
        if task is not None:
            self._progress.remove_task(task)
        depth = len(self._tasks)
        self.stages.append({"stage": label, "seconds": seconds, "failed": failed, "depth": depth})
        mark = "[red]✗[/red]" if failed else "[green]✓[/green]"
        times = f"[dim]{seconds_text(seconds)}[/dim]"
        line = f"{mark} {'  ' * depth}{escape(label)}  {times}  {escape(detail)}"
        self._progress.console.print(line.rstrip())
