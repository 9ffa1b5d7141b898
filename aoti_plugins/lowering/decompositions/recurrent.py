"""LSTMs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from aoti_plugins.lowering.inductor.libtorch_only import no_onednn


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> Any:
    """``aten._thnn_fused_lstm_cell.default``: both states, and the gates for gradients."""
    gates = input_gates + hidden_gates
    for bias in (input_bias, hidden_bias):
        if bias is not None:
            gates = gates + bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def lstm(x: Tensor, hx: list[Tensor], *how: Any) -> Any:
    """``aten.lstm.input``: PyTorch's own form, step by step.

    PyTorch 2.11 gives the last states of batches one dimension too many.
    """
    with no_onednn():
        outputs, *states = decomposition_table[torch.ops.aten.lstm.input](x, hx, *how)
    return outputs, *(state.view(first.shape) for state, first in zip(states, hx, strict=True))
