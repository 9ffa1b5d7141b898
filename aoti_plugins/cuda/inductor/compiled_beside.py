"""Compile the kernels of a graph beside each other, and beside the code that calls them.

Inductor compiles ahead of time in worker processes, which would look for a GPU, or one kernel after
the other when all code is written. Here a thread compiles a kernel's candidates as soon as its
source is there, and who needs the kernel waits for them. Triton's passes and the assembler leave
Python to the others.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from aoti_plugins.lowering.artifacts.compiler import stopped_together
from aoti_plugins.lowering.cores import usable_cores
from aoti_plugins.lowering.inductor.patching import patch, replaced
from aoti_plugins.lowering.inductor.versions import torch_version


class CompiledBeside:
    """The kernels that are being compiled, by their ``CachingAutotuner``.

    Args:
        pool: whose threads compile.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._begun: dict[int, tuple[Any, Future[None]]] = {}

    def begin(self, tuner: Any, compile_candidates: Callable[[], None]) -> None:
        """Let a thread compile a kernel's candidates; nobody else changes ``tuner`` meanwhile."""
        begun = self._pool.submit(copy_context().run, compile_candidates)
        self._begun[id(tuner)] = tuner, begun  # the tuner is kept, so that the number stays its own

    def is_begun(self, tuner: Any) -> bool:
        """Whether a kernel was given to ``begin``."""
        return id(tuner) in self._begun

    def wait(self, tuner: Any) -> None:
        """Wait for a kernel; raises what compiling it raised."""
        self._begun[id(tuner)][1].result()


@contextmanager
def compiled_beside() -> Iterator[CompiledBeside]:
    """Threads for the block, one for each processor.

    What none has begun by its end is dropped; if it is left early, assemblers are stopped.
    """
    pool = ThreadPoolExecutor(usable_cores(), thread_name_prefix="triton")
    with one_parser():  # until the last thread has ended
        try:
            with stopped_together():
                yield CompiledBeside(pool)
        finally:
            pool.shutdown(cancel_futures=True)


@patch(
    "ast.parse",
    why="Python counts how deep it is in a tree once for all threads, and raises SystemError where "
    "another one parses while it collects garbage.",
    until="the oldest Python that is supported counts for each thread",
)
def one_parser() -> Iterator[None]:
    """Let one thread at a time make a tree of Python's source; Triton does of each kernel."""
    lock = threading.RLock()

    def parse(original: Any, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return original(*args, **kwargs)

    with replaced(ast, "parse", parse):
        yield


_SETTINGS = (
    "_set_triton_ptxas_path",
    *(("_set_triton_libdevice_path",) if torch_version() >= (2, 13) else ()),
)
"""What Inductor calls before Triton compiles."""

_begins: list[Callable[[Any], None]] = []
"""Of the blocks that are open, the innermost last; under the lock of all lowerings, as patches."""


@patch(
    "torch._inductor.codegen.wrapper.PythonWrapperCodegen.define_kernel("
    "self, kernel_name, kernel_body)",
    *(f"torch._inductor.async_compile.{name}" for name in _SETTINGS),
    "torch._inductor.codecache.PyCodeCache.load(source_code)",
    why="Inductor would not begin with a kernel before all code is written.",
    until="Inductor compiles ahead of time in threads",
)
def begun_when_defined(begin: Callable[[Any], None]) -> Iterator[None]:
    """Begin with each Triton kernel of a graph when its source is there.

    Of blocks that are inside each other, the innermost begins.

    Args:
        begin: gets the kernel's ``CachingAutotuner``, the one that Inductor asks for later.
    """
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    _begins.append(begin)

    def define_kernel(
        original: Any, self: Any, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any
    ) -> None:
        original(self, kernel_name, kernel_body, *args, **kwargs)
        if begin is _begins[-1] and kernel_body.startswith("async_compile.triton("):
            eval(kernel_body, {"async_compile": _Beginner(begin)})

    try:
        with replaced(PythonWrapperCodegen, "define_kernel", define_kernel):
            yield
    finally:
        _begins.pop()


class _Beginner:
    """Stands for ``async_compile`` where Inductor's code says that a kernel is to be compiled."""

    def __init__(self, begin: Callable[[Any], None]) -> None:
        self._begin = begin

    def triton(self, kernel_name: str, source_code: str, device_str: str = "cuda") -> None:
        """Begin with a kernel."""
        from torch._inductor import async_compile
        from torch._inductor.codecache import PyCodeCache

        del device_str
        for name in _SETTINGS:
            getattr(async_compile, name)()
        self._begin(getattr(PyCodeCache.load(source_code), kernel_name))
