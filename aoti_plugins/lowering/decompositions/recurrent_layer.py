"""The operator ``aoti_plugins::recurrent_layer``: all steps of a recurrent layer in one direction.

The runtimes have kernels for it, so that neither the code of a program nor the time that lowering
takes grows with the number of steps.
"""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from aoti_plugins.lowering.aten_kernels import RECURRENT_LAYER


class Kind(enum.IntEnum):
    """What happens in a step; must match native/src/ops/recurrent_plan.h."""

    LSTM = 0
    GRU = 1
    TANH = 2
    RELU = 3

    @property
    def gates(self) -> int:
        """How many gates there are."""
        return {Kind.LSTM: 4, Kind.GRU: 3}.get(self, 1)


@custom_op(RECURRENT_LAYER, mutates_args=())
def recurrent_layer(
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    kind: int,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer in one direction; all tensors are contiguous and of one floating-point dtype.

    Args:
        inputs: ``[steps, batch, gates * width]``, what the input contributes to each gate, biases
            included; of GRUs without the state's.
        hidden: ``[batch, width]``, the first state.
        cell: ``[batch, width]``, the second state that LSTMs have.
        weight: ``[gates * width, width]``, gates in PyTorch's order.
        bias: ``[gates * width]``, of the state of GRUs.
        kind: a value of ``Kind``.
        reverse: whether it goes from the last step to the first.

    Returns:
        The states after each step, ``[steps, batch, width]``, in the order of the inputs; the last
        state; the last cell, without elements where there is none.
    """
    found = torch.empty_like(inputs[..., : hidden.size(1)])
    steps = range(inputs.size(0))
    for step in reversed(steps) if reverse else steps:
        hidden, cell = _step(Kind(kind), inputs[step], hidden, cell, weight, bias)
        found[step] = hidden
    return found, hidden.clone(), hidden.new_empty(0) if cell is None else cell.clone()


@recurrent_layer.register_fake
def _(inputs: Tensor, hidden: Tensor, cell: Tensor | None, *_: Any) -> tuple[Tensor, ...]:
    steps, batch, _ = inputs.shape
    outputs = inputs.new_empty(steps, batch, hidden.size(1))
    last_cell = hidden.new_empty(0) if cell is None else torch.empty_like(cell)
    return outputs, torch.empty_like(hidden), last_cell


def _step(
    kind: Kind,
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    gates = torch.nn.functional.linear(hidden, weight, bias)
    if kind == Kind.GRU:
        (r, z, n), (in_r, in_z, in_n) = gates.chunk(3, 1), inputs.chunk(3, 1)
        candidate = (in_n + (in_r + r).sigmoid() * n).tanh()
        return (hidden - candidate) * (in_z + z).sigmoid() + candidate, None
    gates = gates + inputs
    if kind != Kind.LSTM:
        return (gates.tanh() if kind == Kind.TANH else gates.relu()), None
    i, f, g, o = gates.chunk(4, 1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell
