"""Linear recurrences in a number of steps that does not depend on the number of tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def scan(factors: Tensor, terms: Tensor, start: Tensor, most: int) -> Tensor:
    """The states of ``state = factor * state + term`` after each token.

    The number of tokens may be dynamic: each step takes in what lies 1, 2, 4, ... tokens before, up
    to the most that there can be. Nothing is divided, so factors may be as small as they like.

    Args:
        factors: ``[T, ...]``.
        terms: the same shape.
        start: ``[...]``, the state before the first token.
        most: T is never more.

    Returns:
        ``[T, ...]``.

    Example:
        >>> scan(torch.full((3,), 0.5), torch.ones(3), torch.tensor(4.0), 3)
        tensor([3.0000, 2.5000, 2.2500])
    """
    reach = 1
    while reach < most:
        terms = terms + factors * _delayed(terms, reach, 0.0)
        factors = factors * _delayed(factors, reach, 1.0)
        reach *= 2
    return terms + factors * start


def _delayed(values: Tensor, tokens: int, before: float) -> Tensor:
    """Values some tokens later, and before the first of them a constant."""
    padding = [0, 0] * (values.dim() - 1) + [tokens, 0]
    return torch.nn.functional.pad(values, padding, value=before)[: values.shape[0]]
