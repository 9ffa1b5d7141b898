"""Keep small loops on one thread although the number of threads is left to run time.

With ``cpp.dynamic_threads`` Inductor opens a parallel region around every kernel and leaves the
choice to OpenMP, whose answer is always "all threads": a loop over a thousand elements then costs
tens of microseconds instead of one. Inductor's own threshold (``cpp.min_chunk_size``) is only
honoured with a fixed number of threads. Inside the block it is honoured in both cases. It says
whether threads are started, and not how many loops they share: an image of three channels, whose
pixels are too few for another thread each, would be the work of one.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.cpp.CppKernel.decide_parallel_depth("
    "self, max_parallel_depth, threads)",
    why="Small loops would start all threads.",
    until="decide_parallel_depth keeps depth 0 with dynamic threads",
)
def parallel_threshold(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Generate CPU kernels that start threads only for loops above the threshold.

    Threads that start share as many loops as give each of them something.
    """
    from torch._inductor import config

    with config.patch({"cpp.dynamic_threads": False}):
        found = original(*args, **kwargs)
        if not found.parallel_depth:
            return found
        with config.patch({"cpp.min_chunk_size": 1}):
            return original(*args, **kwargs)
