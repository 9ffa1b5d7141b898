"""Sums that a CPU adds up one by one are added up in float64.

Where a loop cannot be vectorized, Inductor adds float32 to float32, each sum rounded: of a few
hundred values that is several times what PyTorch itself is off by, and a variance of nearly equal
values shows it. Of float32 values in float64 nothing is lost, and such a loop takes as long: it
waits for the addition before. Vectors are added up as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.codegen.cpp.reduction_acc_type(reduction_type, dtype)",
    why="A sum of many values that is not vectorized would be rounded once for each of them.",
    until="CppKernel adds up float32 in float64, or in parts",
)
def wide_sums() -> Iterator[None]:
    """A scalar that float32 is added up in is a ``double``."""
    from torch._inductor.codegen import cpp

    original = cpp.reduction_acc_type

    def acc_type(reduction_type: str, dtype: Any) -> str:
        found = str(original(reduction_type, dtype))
        return "double" if (reduction_type, found) == ("sum", "float") else found

    with mock.patch.object(cpp, "reduction_acc_type", acc_type):
        yield
