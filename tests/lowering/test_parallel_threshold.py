"""Which loops of a CPU kernel are shared by threads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from torch._inductor import config
from torch._inductor.codegen.cpp import CppKernel, ParallelDepth
from torch._inductor.virtualized import V

from aoti_plugins.cpu.device import INDUCTOR_OPTIONS
from aoti_plugins.lowering.inductor.parallel_threshold import parallel_threshold


def _hint(size: int, **others: object) -> int:
    del others
    return size


@pytest.mark.parametrize(
    ("sizes", "depth"),
    [
        ((1000,), 0),
        ((3, 1000), 0),
        ((131072,), 1),
        ((64, 50176), 1),
        ((3, 50176), 2),  # three channels would be the work of one vector, and of one thread
        ((1, 3, 50176), 3),
    ],
)
def test_threads_share_as_many_loops_as_there_is_something_for_each(
    sizes: tuple[int, ...], depth: int
) -> None:
    numel = 1
    for size in sizes:
        numel *= size
    sizevars = SimpleNamespace(optimization_hint=_hint, size_hint=_hint)
    kernel = SimpleNamespace(call_ranges=sizes, size_hint=lambda: numel)
    with (
        parallel_threshold(),
        config.patch(dict(INDUCTOR_OPTIONS)),
        V.set_graph_handler(SimpleNamespace(sizevars=sizevars)),  # type: ignore[arg-type]
    ):
        every = ParallelDepth(parallel_depth=len(sizes), start_depth=0)
        found = CppKernel.decide_parallel_depth(kernel, every, INDUCTOR_OPTIONS["cpp.threads"])
    assert found.parallel_depth == depth
