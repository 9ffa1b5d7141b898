"""Small kernels that do not wait for each other are one kernel.

A token of a language model begins with some kernels of a few thousand elements: a row of the
embedding, the angles of its position, a mask. Each takes as long as its launch. Inductor can put
such kernels into one (``combo_kernels``), each in blocks of its own; of larger ones it would take
registers and choices of block sizes away, so here only small ones are put together, none of which
writes to what was there before.

Patched: which nodes Inductor puts together; and which nodes it sees in such a kernel, which gives
it its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aoti_plugins.lowering.inductor.kernel_sites import single_nodes
from aoti_plugins.lowering.inductor.patching import patch, replaced

_MOST_ELEMENTS = 1 << 15


@patch(
    "torch._inductor.scheduler.ForeachKernelSchedulerNode.combinable_nodes(nodes)",
    "torch._inductor.utils.aggregate_origins(node_schedule)",
    "torch._inductor.config.combo_kernels",
    "torch._inductor.config.combo_kernel_allow_mixed_sizes",
    why="Each small kernel takes as long as its launch.",
    until="Inductor puts only small kernels together",
)
def small_kernels_together() -> Iterator[None]:
    """Inductor puts small kernels together that do not depend on each other."""
    import torch._inductor.utils
    from torch._inductor import config
    from torch._inductor.scheduler import ForeachKernelSchedulerNode

    def combinable(original: Any, nodes: Any) -> list[Any]:
        return list(filter(_is_small, original(nodes)))

    def origins(original: Any, node_schedule: Any) -> Any:
        is_list = isinstance(node_schedule, list)
        return original(single_nodes(node_schedule) if is_list else node_schedule)

    with (
        config.patch(combo_kernels=True, combo_kernel_allow_mixed_sizes=2),
        replaced(ForeachKernelSchedulerNode, "combinable_nodes", combinable),
        replaced(torch._inductor.utils, "aggregate_origins", origins),
    ):
        yield


def _is_small(node: Any) -> bool:
    """Whether a node of the scheduler computes a few elements, each by itself."""
    import sympy
    from torch._inductor.scheduler import FusedSchedulerNode, SchedulerNode

    if type(node) not in (SchedulerNode, FusedSchedulerNode):
        return False
    if node.is_template() or node.is_reduction() or node.has_aliasing_or_mutation():
        return False
    count, _ = node.group[1]
    return isinstance(count, sympy.Integer) and int(count) <= _MOST_ELEMENTS
