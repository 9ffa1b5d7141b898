"""Windows of a maximum are read without asking for each element whether it is one.

At the edges Inductor masks the elements of a window that are in the padding, in each vector of all
windows. Inside the block the element at the edge is read in their place: it is in the window
anyway, and a maximum does not change by reading one twice.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.lowering.constant_boundary_condition(x, fill_value, padding, "
    "pad_fill_value, dim)",
    "torch._inductor.virtualized.V.graph",
    why="Maxima over windows of channels-last images take several times as long.",
    until="Inductor peels the edges of windows",
)
def max_pools(
    original: Any,
    x: Any,
    fill_value: Any,
    padding: Any = None,
    pad_fill_value: float = 1.0,
    dim: int | None = None,
) -> Any:
    """How elements of ``x`` are read, by an index that may be outside of the last ``dim`` dims."""
    import sympy

    if dim is None or not _reads_channels(x, dim) or not _is_plain_max_pool():
        return original(x, fill_value, padding, pad_fill_value, dim)
    read, sizes = x.make_loader(), x.get_size()[-dim:]

    def load(index: Any) -> Any:
        inside = [
            sympy.Min(sympy.Max(place, 0), size - 1)
            for place, size in zip(index[-dim:], sizes, strict=True)
        ]
        return read([*index[:-dim], *inside])

    return load


def _reads_channels(x: Any, dim: int) -> bool:
    """Whether the innermost dim is not one that windows go over: vectors lie side by side."""
    stride = x.maybe_get_stride()
    return stride is not None and len(stride) == dim + 2 and stride[1] == 1


def _is_plain_max_pool() -> bool:
    """Whether the node being lowered is a maximum over windows without gaps, and only that.

    Where one was found would be wrong in the padding. In gaps, the edge is not in the window.
    """
    import torch
    from torch._inductor.virtualized import V

    node = V.graph.current_node
    if node is None or node.target is not torch.ops.prims._low_memory_max_pool_with_offsets.default:
        return False
    dilation = node.args[4]
    places = [user for user in node.users if user.args[1] != 0]
    return not places and all(step == 1 for step in dilation)
