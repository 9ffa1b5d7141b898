"""What the runtime's products put the first half of their columns through."""

from __future__ import annotations

from enum import IntEnum

from torch import Tensor
from torch.nn.functional import gelu, silu


class Gate(IntEnum):
    """A gate; numbers as in native/src/cuda/kernels/one_row.h."""

    NONE = 0
    SILU = 1
    GELU = 2
    GELU_TANH = 3


def activated(x: Tensor, gate: Gate) -> Tensor:
    """What a gate makes of the first half."""
    if gate == Gate.SILU:
        return silu(x)
    return gelu(x, approximate="tanh" if gate == Gate.GELU_TANH else "none")
