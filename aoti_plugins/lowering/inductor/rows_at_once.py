"""Keep no row in a buffer of one row where a loop takes several rows at once.

Where loops over rows are fused, what one leaves for the next is kept in a buffer of one row. If the
elements of a row do not lie side by side, the loop over rows is the one that is vectorized: all its
lanes wrote to that buffer, and the last one won, as in the softmax of products of strided vectors.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.cpp.OuterLoopFusedSchedulerNode.check_outer_fusion_loop_level_attr("
    "self, cpp_kernel_proxy_list, outer_loop_fusion_depth)",
    "torch._inductor.codegen.cpp.LoopLevel",
    "torch._inductor.virtualized.V.local_buffer_context",
    why="Rows that are computed together share a buffer of one row, which is wrong, silently.",
    until="try_outer_loop_fusion_with_local_buf looks at the steps of the outer loops",
)
def rows_at_once(original: Any, self: Any, kernels: Any, depth: int) -> bool:
    """Such loops are generated one after the other."""
    from torch._inductor.virtualized import V

    has_buffers = bool(getattr(V.local_buffer_context, "local_buffers", None))
    outer = [loop for one in kernels for loop in one.loop_nest.loops[:depth]]
    if has_buffers and any(loop.steps != 1 for loop in outer):
        return False
    return bool(original(self, kernels, depth))
