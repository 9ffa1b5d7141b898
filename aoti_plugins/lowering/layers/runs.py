"""Finds where a sequence repeats itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Run:
    """A part of a sequence that consists of equal parts.

    Attributes:
        start: where the first part begins.
        period: how long a part is.
        count: how many whole ones there are.
        rest: how much of one is behind the last.
    """

    start: int
    period: int
    count: int
    rest: int

    @property
    def end(self) -> int:
        """Behind the last whole part."""
        return self.start + self.period * self.count


def run_of(start: int, period: int, length: int) -> Run:
    """The run of which ``length`` elements are equal to those a period behind them."""
    return Run(start, period, length // period + 1, length % period)


def longest_run(symbols: Sequence[Hashable], least: int) -> Run | None:
    """The longest part of a sequence that repeats a shorter one, as often as it can.

    Args:
        symbols: the sequence.
        least: how often it has to be repeated.

    Returns:
        ``None`` if nothing is.
    """
    numbers: dict[Hashable, int] = {}
    sequence = torch.tensor([numbers.setdefault(one, len(numbers)) for one in symbols])
    found, covered = None, 0
    for period in range(1, len(symbols) // least + 1):
        start, length = longest_true(sequence[period:] == sequence[:-period])
        if length + period > covered and length // period + 1 >= least:
            found, covered = run_of(start, period, length), length + period
    return found


def longest_true(values: torch.Tensor) -> tuple[int, int]:
    """Where most values in a row are true, and how many; ``values`` has one dimension."""
    end = torch.tensor([len(values)])
    false = torch.cat([torch.tensor([-1]), (~values).nonzero().flatten(), end])
    lengths = false.diff() - 1
    first = int(lengths.argmax())
    return int(false[first]) + 1, int(lengths[first])
