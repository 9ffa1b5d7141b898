"""How far results are from eager PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

TOLERANCES: Mapping[torch.dtype, float] = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 2e-2,
    torch.bfloat16: 5e-2,
}
"""The largest error that rounding explains, relative to the largest value, of deep models."""


@dataclass(frozen=True)
class Difference:
    """How far one value is from another.

    Attributes:
        dtype: of the expected value.
        shape: of the expected value.
        problem: what cannot be compared, such as another shape; empty if all can.
        error: the largest absolute error, infinite where one of the two is not finite.
        largest: the largest magnitude that is expected.
        allowed: how large the error may be.
    """

    dtype: str
    shape: tuple[int, ...]
    problem: str = ""
    error: float = 0.0
    largest: float = 0.0
    allowed: float = 0.0

    @property
    def is_near(self) -> bool:
        """Whether rounding explains it."""
        return not self.problem and self.error <= self.allowed


def difference(expected: Any, found: Any, tolerance: float | None = None) -> Difference:
    """Compare two values.

    Args:
        expected: a tensor or a number.
        found: the same in the program.
        tolerance: the largest error relative to the largest value; by default by dtype, and none
            for integers and truth values.
    """
    expected, found = torch.as_tensor(expected), torch.as_tensor(found)
    facts = str(expected.dtype).removeprefix("torch."), tuple(expected.shape)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        other = f"{str(found.dtype).removeprefix('torch.')} {list(found.shape)}"
        return Difference(*facts, f"it is {other}")
    if not expected.numel():
        return Difference(*facts)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    one, other = expected.to(wide), found.to(wide)
    finite = one.isfinite()
    largest = one[finite].abs().max().item() if finite.any() else 0.0
    if tolerance is None:
        part = expected.real if expected.is_complex() else expected
        tolerance = TOLERANCES.get(part.dtype, 0.0)
    return Difference(*facts, "", _error(one, other), largest, tolerance * largest)


def _error(one: Tensor, other: Tensor) -> float:
    same = (one == other) | (one.isnan() & other.isnan())
    error = torch.where(same, 0.0, (one - other).abs()).nan_to_num(math.inf, math.inf)
    return float(error.max())
