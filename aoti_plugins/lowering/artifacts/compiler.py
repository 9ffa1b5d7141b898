"""Run compilers, several at a time; an interrupt ends all of them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any, TypeVar

from aoti_plugins.errors import LoweringError

logger = logging.getLogger(__name__)

_MAX_ERROR_LINES = 40

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@functools.cache
def compiler_identity(command: tuple[str, ...]) -> str:
    """What ``--version`` prints; part of the key of everything cached per compiler."""
    with tempfile.TemporaryDirectory(prefix="aoti_plugins-") as name:  # Zig leaves a file there
        folder = Path(name)
        return run([*command, "--version"], cwd=folder, scratch=folder).strip()


@functools.cache
def compiler_machine(command: tuple[str, ...]) -> str:
    """The machine that a compiler makes code for, for instance ``"x86_64"``."""
    return run([*command, "-dumpmachine"]).strip().partition("-")[0]


def is_clang(command: Sequence[str]) -> bool:
    """Whether a compiler is clang, by whatever name, and not gcc."""
    return "clang" in compiler_identity(tuple(command)).lower()


class Group:
    """Compilers that work for the same blob; stopped together, after which none starts.

    Args:
        outer: the group that this one is a part of, stopped with it.
    """

    def __init__(self, outer: Group | None = None) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._inner: list[Group] = []
        self._stopped = False
        if outer is not None:
            outer._add(self)

    def _add(self, inner: Group) -> None:
        with self._lock:
            self._inner.append(inner)
            stopped = self._stopped
        if stopped:
            inner.stop()

    def _remove(self, inner: Group) -> None:
        with self._lock:
            self._inner.remove(inner)

    @contextlib.contextmanager
    def including(self, other: Group) -> Iterator[None]:
        """Stop another group with this one, for the block."""
        self._add(other)
        try:
            yield
        finally:
            self._remove(other)

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped

    @contextlib.contextmanager
    def started(self, command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
        """Start a command for the block, in which it must be waited for.

        Args:
            command: the program and its arguments.
            options: of ``subprocess.Popen``.

        Raises:
            LoweringError: the group was stopped before.
        """
        with self._lock:
            if self._stopped:
                raise LoweringError(f"{program_name(command)} was not started: interrupted")
            # In a session of its own, so that what a compiler starts is signalled with it.
            process = subprocess.Popen(command, start_new_session=True, **options)
            self._running.add(process)
            _all_running.add(process)
        try:
            yield process
        except BaseException:
            _terminate(process)
            process.wait()
            raise
        finally:
            with self._lock:
                self._running.discard(process)
                _all_running.discard(process)

    def run(
        self, command: Sequence[str], cwd: Path | None, environment: dict[str, str]
    ) -> tuple[int, str]:
        """Exit status and output of a command."""
        options = {"cwd": cwd, "env": environment, "encoding": "utf-8", "errors": "replace"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with self.started(command, **options, **pipes) as process:
            output, _ = process.communicate()
        return process.returncode, output

    def stop(self) -> None:
        """Terminate what runs; compilers remove their temporary files."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _terminate(process)
            inner = list(self._inner)
        for one in inner:
            one.stop()


_all_running: set[subprocess.Popen[str]] = set()


def stop_all() -> None:
    """Terminate the compilers of all threads; for a process that ends without unwinding."""
    for process in list(_all_running):
        _terminate(process)


def _terminate(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


_group: ContextVar[Group | None] = ContextVar("aoti_plugins_compilers", default=None)


def current_group() -> Group:
    """The group that this thread compiles for; a new one for itself if there is none."""
    return _group.get() or Group()


@contextlib.contextmanager
def stopped_together() -> Iterator[Group]:
    """A group for the block and threads in its context; stopped if the block is left early."""
    outer = _group.get()
    group = Group(outer)
    token = _group.set(group)
    try:
        yield group
    except BaseException:
        group.stop()
        raise
    finally:
        _group.reset(token)
        if outer is not None:
            outer._remove(group)


@contextlib.contextmanager
def begun_for_each(
    function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[Callable[[], list[_Result]]]:
    """Begin to call a function that runs compilers for every item, at the same time.

    Args:
        function: called in a thread of its own for each item.
        items: what to call it with.

    Yields:
        A function that waits, and gives the results in the order of the items. Compilers that still
        run at the end of the block are stopped, since nobody waited for them.
    """
    with ThreadPoolExecutor() as pool, stopped_together() as group:
        calls = [pool.submit(copy_context().run, function, item) for item in items]
        yield lambda: [call.result() for call in calls]
        group.stop()


def for_each(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Call a function that runs compilers for every item, at the same time.

    When one call fails, or the caller is interrupted, the compilers of all are stopped before the
    exception leaves.

    Args:
        function: called in a thread of its own for each item.
        items: what to call it with.

    Returns:
        The results, in the order of the items.
    """
    with begun_for_each(function, items) as results:
        return results()


@contextlib.contextmanager
def compiled_meanwhile(compile_parts: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Call a function that runs compilers in a thread of its own, for the block.

    Args:
        compile_parts: fills a cache. What it raises is only logged: who then finds nothing in the
            cache compiles the same, and is told.

    Yields:
        A function that waits for it. Where the block is left early its compilers are stopped.
    """
    with ThreadPoolExecutor(1) as pool, stopped_together():
        begun = pool.submit(copy_context().run, compile_parts)

        def wait() -> None:
            error = begun.exception()
            if error is not None:
                logger.debug("what blobs share was not compiled", exc_info=error)

        yield wait


class CompiledAhead:
    """Compilers that a thread runs although nobody waits yet; they end with the process.

    Args:
        compile_parts: fills a cache. What it raises is only logged, as for ``compiled_meanwhile``.
    """

    def __init__(self, compile_parts: Callable[[], object]) -> None:
        self._group = Group()
        self._thread = threading.Thread(
            target=self._run, args=(compile_parts,), name="compiled ahead", daemon=True
        )
        atexit.register(self._stop)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether they still compile."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait for them; whoever stops the group that this thread compiles for stops them."""
        with current_group().including(self._group):
            self._thread.join()

    def _run(self, compile_parts: Callable[[], object]) -> None:
        _group.set(self._group)
        try:
            compile_parts()
        except Exception as error:
            logger.debug("what blobs share was not compiled ahead", exc_info=error)
        finally:
            atexit.unregister(self._stop)

    def _stop(self) -> None:
        self._group.stop()
        self._thread.join()


def program_name(command: Sequence[str]) -> str:
    """What a command runs, behind ``env`` and variables, for messages."""
    parts = (part for part in command if Path(part).name != "env" and "=" not in part)
    return Path(next(parts, command[0])).name


def run(command: Sequence[str], *, cwd: Path | None = None, scratch: Path | None = None) -> str:
    """Run a compiler or linker and return what it printed.

    Args:
        command: the program and its arguments.
        cwd: folder to run it in.
        scratch: folder for its temporary files; Zig keeps there what it compiles.

    Raises:
        LoweringError: it failed; the message has the command and the first lines of its output.
    """
    group = current_group()
    folders = {"TMPDIR": str(scratch), "ZIG_LOCAL_CACHE_DIR": str(scratch)} if scratch else {}
    status, output = group.run(command, cwd, {**os.environ, **folders})
    if status:
        lines = output.splitlines()
        shown = "\n".join(lines[:_MAX_ERROR_LINES])
        cut = (
            f"\n… {len(lines) - _MAX_ERROR_LINES} more lines"
            if len(lines) > _MAX_ERROR_LINES
            else ""
        )
        raise LoweringError(
            f"{program_name(command)} failed with exit status {status}:\n"
            f"  {shlex.join(command)}\n{shown}{cut}"
        )
    return output
