"""How operators are registered for which a runtime has kernels; PyTorch computes them as well."""

from __future__ import annotations

from functools import partial

import torch

runtime_op = partial(torch.library.custom_op, mutates_args=(), tags=(torch.Tag.flexible_layout,))
"""``custom_op`` for tensors of any strides.

Else Inductor copies what is not laid out as it was for the example, and for each use of its own
what several share.
"""
