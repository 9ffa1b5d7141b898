"""The operator ``aoti_plugins::stored``: its result is in memory before it is used.

Inductor computes what is used several times anew for each use, unless it reads enough from memory;
where each step of a loop uses the one before several times, and nothing is read, that is never
done. The operator's lowering is in ``aoti_plugins.lowering.inductor.stored_values``.
"""

from __future__ import annotations

import torch
from torch.library import custom_op


@custom_op("aoti_plugins::stored", mutates_args=(), tags=(torch.Tag.flexible_layout,))
def stored(x: torch.Tensor) -> torch.Tensor:
    """The same elements, any dtype, sizes and strides."""
    return x.clone()


@stored.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)
