"""Sums that a CPU adds up one by one are added up in float64.

Where a loop cannot be vectorized, Inductor adds float32 to float32, each sum rounded: of a few
hundred values that is several times what PyTorch itself is off by, and a variance of nearly equal
values shows it. Of float32 values in float64 nothing is lost, and such a loop takes as long: it
waits for the addition before. Nor does it need the parts that Inductor makes of more than 4096
values, which it then adds up. Vectors are added up as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aoti_plugins.lowering.inductor.patching import patch, replaced


@patch(
    "torch._inductor.codegen.cpp.reduction_acc_type(reduction_type, dtype)",
    "torch._inductor.codegen.cpp.CppKernel.need_use_acc_helper(self, reduction_type, use_scalar)",
    "torch._inductor.codegen.cpp.CppKernel._use_acc_helper(self, reduction_type, use_scalar)",
    why="A sum of many values that is not vectorized would be rounded once for each of them.",
    until="CppKernel adds up float32 in float64, or in parts",
)
def wide_sums() -> Iterator[None]:
    """A scalar that float32 is added up in is a ``double``."""
    from torch._inductor.codegen import cpp

    def acc_type(original: Any, reduction_type: str, dtype: Any) -> str:
        found = str(original(reduction_type, dtype))
        return "double" if (reduction_type, found) == ("sum", "float") else found

    def needs(original: Any, self: Any, reduction_type: str, dtype: Any, use_scalar: bool) -> bool:
        is_wide = reduction_type == "sum" and use_scalar
        return not is_wide and bool(original(self, reduction_type, dtype, use_scalar))

    def use(
        original: Any, self: Any, reduction_type: str, *args: Any, use_scalar: bool = False
    ) -> None:
        if reduction_type != "sum" or not use_scalar:
            original(self, reduction_type, *args, use_scalar=use_scalar)

    with (
        replaced(cpp, "reduction_acc_type", acc_type),
        replaced(cpp.CppKernel, "need_use_acc_helper", needs),
        replaced(cpp.CppKernel, "_use_acc_helper", use),
    ):
        yield
