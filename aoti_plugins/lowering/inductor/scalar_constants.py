"""Make a constant without dimensions a tensor like any other for Inductor's lowerings.

ExecuTorch lifts the numbers of a program to tensors without dimensions. Inductor's graph gives such
a one to the lowerings of ops as a bare ``ir.Constant``, and these ask only a ``TensorBox`` for its
dtype: a division with ``rounding_mode="floor"`` takes integers for something else and truncates
(``x // 2`` of -3 is then -1) or gives floats, and views of it do not work (``select_scatter`` of a
number). Inside the block it is what ``torch.full((), number)`` would be, which is generated as a
literal, too.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.graph.GraphLowering.get_attr(self, target, args, kwargs)",
    "torch._inductor.lowering.tensor(data, dtype, device, layout, pin_memory)",
    "torch._inductor.ir.Constant",
    why="Integer constants without dimensions take a wrong dtype in some lowerings.",
    until="GraphLowering.get_attr gives a TensorBox for each tensor",
)
def scalar_constants(original: Any, self: Any, *place: Any) -> Any:
    """Lower graphs whose constants without dimensions are tensors."""
    from torch._inductor import ir
    from torch._inductor.lowering import tensor

    found = original(self, *place)
    if not isinstance(found, ir.Constant):
        return found
    return tensor(found.value, dtype=found.dtype, device=found.device)
