"""LSTMs, GRUs and plain recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from aoti_plugins.lowering.decompositions.recurrent_layer import Kind, recurrent_layer
from aoti_plugins.lowering.inductor.libtorch_only import no_onednn

_aten = torch.ops.aten

_UNROLLED = 4
"""Up to so many steps are code of their own, fused with what is around them."""


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


def lstm(x: Tensor, hx: list[Tensor], params: list[Tensor], *how: Any) -> Any:
    """``aten.lstm.input``.

    With projections, which the kernels do not have, it is unrolled. PyTorch 2.11 then gives the
    last states of batches one dimension too many.
    """
    if hx[0].size(2) == hx[1].size(2) and _is_for_kernels(x, *how):
        return _by_layers(Kind.LSTM, x, hx, params, *how)
    outputs, *states = _unrolled(_aten.lstm.input, x, hx, params, *how)
    return outputs, *(state.view(first.shape) for state, first in zip(states, hx, strict=True))


def rnn(op: OpOverload, kind: Kind, x: Tensor, hx: Tensor, params: list[Tensor], *how: Any) -> Any:
    """Recurrent layers with one state.

    Args:
        op: what is decomposed.
        kind: what happens in a step.
        x: as the op has it, like what follows.
        hx: the first states.
        params: weights and biases.
        how: the op's other arguments.
    """
    if _is_for_kernels(x, *how):
        return _by_layers(kind, x, [hx], params, *how)
    outputs, last = _unrolled(op, x, hx, params, *how)
    return outputs, last.view(hx.shape)


LAYERS: dict[OpOverload, Callable[..., Any]] = {
    _aten.lstm.input: lstm,
    **{
        op: partial(rnn, op, kind)
        for op, kind in (
            (_aten.gru.input, Kind.GRU),
            (_aten.rnn_tanh.input, Kind.TANH),
            (_aten.rnn_relu.input, Kind.RELU),
        )
    },
}
"""Of whole layers, for which all runtimes have kernels."""


def _unrolled(op: OpOverload, *arguments: Any) -> Any:
    with no_onednn():
        return decomposition_table[op](*arguments)


def _is_for_kernels(
    x: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> bool:
    """Whether there are more than a few steps, or an unknown number, and nothing random."""
    steps = x.size(1 if batch_first else 0)
    return not (isinstance(steps, int) and steps <= _UNROLLED) and not (train and dropout)


def _by_layers(
    kind: Kind,
    x: Tensor,
    states: Sequence[Tensor],
    params: list[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """The results of the op: all outputs, then the last of each state."""
    directions = 2 if bidirectional else 1
    per_layer = 4 if has_biases else 2
    x = x.transpose(0, 1) if batch_first else x
    last: list[tuple[Tensor, ...]] = []
    for layer in range(num_layers):
        outputs = []
        for place in range(layer * directions, (layer + 1) * directions):
            of_layer = params[place * per_layer : (place + 1) * per_layer]
            first = [state[place].contiguous() for state in states]
            found, *after = _one_layer(kind, x, first, of_layer, place % directions == 1)
            outputs.append(found)
            last.append(tuple(after))
        x = torch.cat(outputs, 2) if bidirectional else outputs[0]
    x = x.transpose(0, 1) if batch_first else x
    return x, *(torch.stack([one[i] for one in last]) for i in range(len(states)))


def _one_layer(
    kind: Kind, x: Tensor, states: Sequence[Tensor], params: list[Tensor], reverse: bool
) -> tuple[Tensor, ...]:
    """One layer in one direction: what the input contributes to all steps is one product."""
    of_input, of_state, *biases = params
    bias, state_bias = biases if biases else (None, None)
    if bias is not None and kind != Kind.GRU:
        bias, state_bias = bias + state_bias, None
    inputs = torch.nn.functional.linear(x, of_input, bias).contiguous()
    state_bias = None if state_bias is None else state_bias.contiguous()
    hidden, cell = states if kind == Kind.LSTM else (states[0], None)
    weight = of_state.contiguous()
    found = recurrent_layer(inputs, hidden, cell, weight, state_bias, int(kind), reverse)
    return found if kind == Kind.LSTM else found[:2]
