"""What a weight of 4 or 8 bits is: codes, a scale and perhaps a zero for each group of a row."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

NO_ZERO, ZERO_POINT, ADDED_ZERO = range(3)
"""Kinds of zeros: none; what is taken from a code; what is added to a weight."""

MIDDLE = {4: 8, 8: 0}
"""The code that stands for 0 where there are no zeros."""


@dataclass(frozen=True)
class SmallWeight:
    """A weight ``[n, k]`` of 4 or 8 bits.

    Attributes:
        name: of the placeholder that held it.
        codes: ``[n, k]``, uint8 from 0 to 15 for 4 bits, int8 for 8.
        scale: ``[n, groups]``.
        zero: likewise; none for ``NO_ZERO``.
        bits: 4 or 8.
        zero_kind: of the zeros.
    """

    name: str
    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    bits: int
    zero_kind: int

    @property
    def group_size(self) -> int:
        """Weights of a row that have one scale."""
        return self.codes.size(1) // self.scale.size(1)
