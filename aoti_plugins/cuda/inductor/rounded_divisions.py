"""What is divided once for a row, or by a number, is rounded correctly: means, above all.

Triton's division is an approximation, which goes with a subtraction into one instruction: a row of
equal values less their mean was not 0, and a norm makes that some hundred times as large. Divisions
of elements by others stay as they are, since correct ones take more instructions.
"""

from __future__ import annotations

from typing import Any

import torch

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.triton.TritonOverrides.truediv(x, y)",
    why="A norm of equal values would not be 0.",
    until="means are divided by div_rn",
)
def rounded_divisions(original: Any, x: Any, y: Any) -> str:
    """Divide float32 correctly by numbers, and where there is one of a row."""
    if _is_float(x) and _is_float(y) and (_is_number(y) or (_is_of_rows(x) and _is_of_rows(y))):
        return f"triton.language.div_rn({x}, {y})"
    return str(original(x, y))


def _is_float(value: Any) -> bool:
    return getattr(value, "dtype", None) == torch.float32


def _is_number(value: Any) -> bool:
    """Whether there is one value for all elements."""
    shape = getattr(value, "shape", None)
    return shape is not None and all(str(size) == "1" for size in shape)


def _is_of_rows(value: Any) -> bool:
    """Whether a value has one element for all that a kernel reduces at a time."""
    from torch._inductor.virtualized import V

    shape, reduced = getattr(value, "shape", None) or (), V.kernel.num_reduction_dims
    return 0 < reduced < len(shape) and all(str(size) == "1" for size in shape[-reduced:])
