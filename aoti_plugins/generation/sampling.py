"""Chooses a token by logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; by default always the likeliest one.

    The steps are in the order of the fields, as in transformers: the penalty, the temperature,
    then each limit over what the ones before left.

    Attributes:
        repetition_penalty: logits of tokens that were there are divided by it if positive, else
            multiplied; 1 changes nothing.
        temperature: logits are divided by it; 0 takes the likeliest token.
        top_k: only so many of the likeliest tokens; 0 for all.
        top_p: only the likeliest tokens that together have this probability.
        min_p: only tokens with at least this share of the likeliest one's probability.
        seed: of the random numbers; ``None`` for another one each time.
    """

    repetition_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: a value is outside of its range.
        """
        for name, fits, expected in (
            ("repetition_penalty", self.repetition_penalty > 0, "over 0"),
            ("temperature", self.temperature >= 0, "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "over 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "0 to 1"),
        ):
            if not fits:
                raise ValueError(f"{name} is {getattr(self, name)}, expected {expected}")


def probabilities(logits: Any, seen: list[int], sampling: Sampling) -> Any:
    """The distribution that a token is drawn from.

    Args:
        logits: ``[vocabulary]``, float32.
        seen: the tokens of the prompt and of the answer so far.
        sampling: with a temperature over 0.

    Returns:
        ``[vocabulary]``, float64, of sum 1.
    """
    wide = np.asarray(logits, np.float64)
    fair = penalised(wide, seen, sampling.repetition_penalty)
    scaled = (fair - fair.max()) / sampling.temperature  # at most 0, however low the temperature
    if 0 < sampling.top_k < scaled.size:
        scaled[scaled < np.partition(scaled, -sampling.top_k)[-sampling.top_k]] = -np.inf
    powers = np.exp(scaled)
    result = powers / powers.sum()
    if sampling.top_p < 1:
        order = np.argsort(-result, kind="stable")
        before = np.cumsum(result[order]) - result[order]
        result[order[before >= sampling.top_p]] = 0
    if sampling.min_p > 0:
        result[result < sampling.min_p * result.max()] = 0
    return result / result.sum()


def choose(logits: Any, seen: list[int], sampling: Sampling, random: np.random.Generator) -> int:
    """Choose a token; see ``probabilities``."""
    if sampling.temperature == 0:
        return int(penalised(logits, seen, sampling.repetition_penalty).argmax())
    cumulated = np.cumsum(probabilities(logits, seen, sampling))
    return int(np.searchsorted(cumulated, random.random() * cumulated[-1], side="right"))


def penalised(logits: Any, seen: list[int], penalty: float) -> Any:
    """Logits with the penalty on tokens that were there; the same ones without a penalty."""
    if penalty == 1:
        return logits
    result, tokens = np.array(logits), np.unique(seen)
    found = result[tokens]
    result[tokens] = np.where(found > 0, found / penalty, found * penalty)
    return result
