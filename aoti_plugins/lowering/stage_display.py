"""Shows the stages of a lowering as they happen, and keeps their times.

In Python a lowering shows itself where standard error is a terminal; ``show_progress`` and
``AOTI_PLUGINS_PROGRESS`` say otherwise.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.types import ProgressEvent
from aoti_plugins.units import seconds_text

# rich is imported where something is shown: a lowering that shows nothing does not wait for it.
if TYPE_CHECKING:
    from rich.console import Console

logger = logging.getLogger(__name__)

PROGRESS_VARIABLE = "AOTI_PLUGINS_PROGRESS"
_CHOICES = {"": None, "auto": None, "on": True, "off": False}

_WORTH_A_LINE_S = 0.5

_chosen: bool | None = None
_shown = threading.Lock()
"""Held by what shows progress: a terminal has room for one."""


class StageDisplay:
    """One line per stage: a spinner while it runs, its time when it is over.

    Registered as a plugin, it follows the stages of the delegates; ``stage`` adds the steps around
    them. On a stream that is not a terminal, only finished stages are printed.

    Args:
        console: where to.
        thread: whose lowerings it follows; by default those of all threads.
        least_seconds: stages that take less leave no line, unless they fail.
    """

    def __init__(
        self, console: Console, thread: int | None = None, least_seconds: float = 0
    ) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._thread = thread
        self._least_seconds = least_seconds
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
        self._has_terminal = False

    def __enter__(self) -> StageDisplay:
        self._has_terminal = _shown.acquire(blocking=False)
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        if self._has_terminal:
            _shown.release()

    @hookimpl
    def aoti_progress(self, event: ProgressEvent) -> None:
        """Show one event of a delegate's lowering."""
        if self._thread not in (None, threading.get_ident()):
            return
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

    def wait_for(self, label: str) -> None:
        """Show a step until this display ends; its time is not kept."""
        from rich.markup import escape

        self._progress.add_task(escape(label), total=None)

    def _start(self, label: str) -> None:
        indent = "  " * len(self._tasks)
        self._tasks[label] = self._progress.add_task(f"{indent}{label}", total=None)

    def _end(self, label: str, seconds: float, failed: bool, detail: str) -> None:
        from rich.markup import escape

        task = self._tasks.pop(label, None)
        if task is not None:
            self._progress.remove_task(task)
        depth = len(self._tasks)
        self.stages.append({"stage": label, "seconds": seconds, "failed": failed, "depth": depth})
        if seconds < self._least_seconds and not failed:
            return
        mark = "[red]✗[/red]" if failed else "[green]✓[/green]"
        times = f"[dim]{seconds_text(seconds)}[/dim]"
        line = f"{mark} {'  ' * depth}{escape(label)}  {times}  {escape(detail)}"
        self._progress.console.print(line.rstrip())


def show_progress(shown: bool | None) -> None:
    """Choose whether lowerings of this process show their stages on standard error.

    Args:
        shown: ``None``, as at the start: what the variable ``AOTI_PLUGINS_PROGRESS`` says (``on``,
            ``off``), and without it only where standard error is a terminal.

    Example:
        >>> import aoti_plugins
        >>> aoti_plugins.show_progress(False)
        >>> aoti_plugins.show_progress(None)
    """
    global _chosen
    _chosen = shown


def is_progress_shown() -> bool:
    """Whether a lowering that begins now shows its stages."""
    if _chosen is not None:
        return _chosen
    text = os.environ.get(PROGRESS_VARIABLE, "")
    if text not in _CHOICES:
        logger.warning("%s is %r, expected on, off or auto", PROGRESS_VARIABLE, text)
    choice = _CHOICES.get(text)
    return choice if choice is not None else sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def stages_shown() -> Iterator[None]:
    """Show the stages of delegates inside the block, unless somebody does already."""
    if _shown.locked() or not is_progress_shown():
        yield
        return
    display = StageDisplay(_console(), threading.get_ident(), _WORTH_A_LINE_S)
    with display, get_manager().registered(display, f"progress-{id(display)}"):
        yield


@contextlib.contextmanager
def waiting(label: str) -> Iterator[None]:
    """Show that a step takes time, on a terminal only; nothing is left of it."""
    if _shown.locked() or not is_progress_shown():
        yield
        return
    with StageDisplay(_console()) as display:
        display.wait_for(label)
        yield


def _console() -> Console:
    from rich.console import Console

    width = None if sys.stderr.isatty() else 160
    return Console(file=sys.stderr, width=width, highlight=False)
