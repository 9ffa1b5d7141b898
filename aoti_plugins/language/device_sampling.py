"""Methods that choose the next token in the program, so that no logits leave the device.

The steps are those of ``aoti_plugins.generation.sampling``, in the same order and precision: the
likeliest token is the same one, and with the same random number so is a drawn one, up to the order
in which sums are added. Greedy choices have a method of their own, which sorts nothing.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.drawn_token import drawn_token

_ROWS = 128


def likeliest_token(decoder: torch.nn.Module) -> torch.nn.Module:
    """The method ``likeliest``.

    It is the decoder with another ``forward``, not one around it: methods share state by name.

    Args:
        decoder: the one of the other methods, which gives the last token's logits.
    """
    return _with_forward(decoder, _LikeliestToken)


def sampled_token(decoder: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """The method ``sample``; see ``likeliest_token``.

    Args:
        decoder: the one of the other methods.
        dtype: of the distribution: float64 as on the host, or float32 for devices without it.
    """
    result = _with_forward(decoder, _SampledToken)
    result.dtype_of_shares = dtype
    return result


def _with_forward(decoder: torch.nn.Module, kind: type[torch.nn.Module]) -> torch.nn.Module:
    result = copy.copy(decoder)
    result.__class__ = type(kind.__name__, (kind, type(decoder)), {})
    result._buffers = dict(decoder._buffers)  # the copy shares these with the decoder
    result._non_persistent_buffers_set = set(decoder._non_persistent_buffers_set)
    result.register_buffer("last_token", torch.zeros(1, dtype=torch.int64), persistent=False)
    return result


class _ChosenToken(torch.nn.Module):
    """In front of a decoder's class: a token that is negative stands for the one chosen last.

    So a call can be given to a GPU before it has chosen the token that the call reads.
    """

    last_token: Tensor

    def forward(self, tokens: Tensor, positions: Tensor, seen: Tensor, settings: Tensor) -> Tensor:
        """Read tokens and choose the next one.

        Args:
            tokens: ``[1, T]``, int64.
            positions: ``[T]``, int64.
            seen: ``[S]``, int64, the tokens that the penalty is for; each may be there twice.
            settings: how it is chosen; see ``choose``.

        Returns:
            ``[1]``, int64.
        """
        known = torch.where(tokens < 0, self.last_token, tokens)
        logits = super().forward(known, positions)[0, -1]
        chosen = self.choose(logits, torch.where(seen < 0, self.last_token, seen), settings)
        self.last_token.copy_(chosen)
        return chosen.clone()  # what is state and a result as well stays outside of delegates


class _LikeliestToken(_ChosenToken):
    """The likeliest one."""

    def choose(self, logits: Tensor, seen: Tensor, penalty: Tensor) -> Tensor:
        """Choose by logits ``[vocabulary]``, with the penalty, ``[1]``, float32."""
        return _first_largest(_penalised(logits, seen, penalty))


class _SampledToken(_ChosenToken):
    """One that is drawn."""

    dtype_of_shares: torch.dtype

    def choose(self, logits: Tensor, seen: Tensor, settings: Tensor) -> Tensor:
        """Choose by logits ``[vocabulary]``.

        Args:
            logits: float32.
            seen: as for ``forward``.
            settings: ``[6]``, of the distribution's dtype: penalty, temperature (over 0), top-k,
                top-p, min-p, and a random number from 0 to below 1.
        """
        fair = _penalised(logits.to(self.dtype_of_shares), seen, settings[:1])
        return drawn_token(fair, settings)


def _first_largest(values: Tensor) -> Tensor:
    """The place of the largest element of ``[n]``, ``[1]``; the first one where there are several.

    By rows, so that a GPU looks at them side by side.
    """
    rows = values.view(math.gcd(values.shape[0], _ROWS), -1)
    largest, places = rows.max(dim=1)
    row = largest.argmax()[None]
    return row * rows.shape[1] + places[row]


def _penalised(logits: Tensor, seen: Tensor, penalty: Tensor) -> Tensor:
    """``[vocabulary]`` with the penalty on tokens that were there, once each."""
    found = logits.index_select(0, seen)
    return logits.scatter(0, seen, torch.where(found > 0, found / penalty, found * penalty))
