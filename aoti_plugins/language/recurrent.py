"""State-space models (Mamba): a state of one size stands for the text so far.

Keys and values of a text can be cut anywhere; such a state belongs to the whole text. A program of
such a model says so with the constant method ``is_recurrent``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aoti_plugins.language.scan import scan

RECURRENT_KINDS = ("falcon_mamba", "mamba")
"""Model types of transformers whose state this module knows."""
BLOCK = 64
"""The most tokens of one call: a longer text takes several.

All states of a block lie in memory at once, and six steps find them.
"""


def is_recurrent(config: Any) -> bool:
    """Whether a model of this configuration is exported by ``RecurrentDecoder``."""
    return config.model_type in RECURRENT_KINDS


class RecurrentDecoder(torch.nn.Module):
    """Takes tokens and where they are, writes its states and gives the last token's logits.

    The first position 0 begins a text; any other goes on where the call before ended.

    Args:
        model: of one of ``RECURRENT_KINDS``; its mixers are replaced by ones that keep states.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._text = _Text()
        self.model = model
        for layer in model.backbone.layers:
            layer.mixer = _StatefulMixer(layer.mixer, self._text)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """``[1, T]`` and ``[T]`` to ``[1, 1, vocabulary]``, float32; T is at most ``BLOCK``."""
        self._text.begins = positions[0] == 0
        result = self.model(input_ids=tokens, use_cache=False, logits_to_keep=1)
        return result.logits.float()


class _Text:
    """What all mixers ask about a call: does a text begin? A bool of no dimensions."""

    begins: Tensor


class _StatefulMixer(torch.nn.Module):
    """A mixer of transformers' weights, with a state, for any number of tokens.

    The state is what the convolution sees of the tokens before, ``[taps - 1, channels]``, and the
    recurrence's, ``[channels, states]``, float32 as all of the recurrence.

    Args:
        mixer: ``MambaMixer`` or ``FalconMambaMixer``.
        text: of the decoder.
    """

    def __init__(self, mixer: Any, text: _Text) -> None:
        super().__init__()
        self.mixer = mixer
        self._text = text
        weight = mixer.conv1d.weight
        taps = torch.zeros(weight.shape[2] - 1, weight.shape[0], dtype=weight.dtype)
        self.register_buffer("taps", taps)
        self.register_buffer("state", torch.zeros(mixer.A_log.shape))

    def forward(self, hidden: Tensor, **_: Any) -> Tensor:
        """``[1, T, width]`` to the same."""
        values, gate = self.mixer.in_proj(hidden[0]).chunk(2, dim=-1)
        values = self._convolved(values)
        result = self._recurred(values) + values.float() * self.mixer.D.float()
        result = result * functional.silu(gate.float())
        return self.mixer.out_proj(result.to(hidden.dtype))[None]

    def _convolved(self, values: Tensor) -> Tensor:
        """Each channel's convolution with the tokens before; ``[T, channels]`` both."""
        convolution, length = self.mixer.conv1d, values.shape[0]
        seen = torch.cat([self._since_the_beginning(self.taps), values])
        self.taps.copy_(seen[length:])
        weights = convolution.weight[:, 0]
        found = seen[:length] * weights[:, 0]
        for i in range(1, weights.shape[1]):
            found = found + seen[i : i + length] * weights[:, i]
        return self.mixer.act(found if convolution.bias is None else found + convolution.bias)

    def _recurred(self, values: Tensor) -> Tensor:
        """What the recurrence makes of ``[T, channels]``, float32."""
        steps, inward, outward = self._selected(values)
        factors = torch.exp(-torch.exp(self.mixer.A_log.float()) * steps[:, :, None])
        terms = (steps * values.float())[:, :, None] * inward[:, None]
        states = scan(factors, terms, self._since_the_beginning(self.state), BLOCK)
        self.state.copy_(states[-1])
        return (states * outward[:, None]).sum(-1)

    def _selected(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each token's time step for each channel, and what it lets into the state and out."""
        mixer = self.mixer
        sizes = [mixer.time_step_rank, mixer.ssm_state_size, mixer.ssm_state_size]
        selected = mixer.x_proj(values).split(sizes, dim=-1)
        steps, inward, outward = (self._normalised(one) for one in selected)
        steps = functional.linear(steps, mixer.dt_proj.weight).float() + mixer.dt_proj.bias.float()
        return functional.softplus(steps), inward.float(), outward.float()

    def _normalised(self, values: Tensor) -> Tensor:
        """Each token's root mean square becomes 1 in FalconMamba; Mamba has no such norm."""
        epsilon = getattr(self.mixer, "rms_eps", None)
        if epsilon is None:
            return values
        squares = values.float().pow(2).mean(-1, keepdim=True)
        return (values.float() * torch.rsqrt(squares + epsilon)).to(values.dtype)

    def _since_the_beginning(self, state: Tensor) -> Tensor:
        """A state, or zeros where a text begins."""
        return torch.where(self._text.begins, 0, state)
