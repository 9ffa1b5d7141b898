"""The op ``acme_triton::gated``: ``x * sigmoid(gate)``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton

BLOCK = 1024


@triton.jit
def gated_kernel(x_ptr, gate_ptr, out_ptr, numel, block: tl.constexpr):
    """One block of elements; all three tensors are contiguous."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < numel
    x = tl.load(x_ptr + at, mask=inside)
    gate = tl.load(gate_ptr + at, mask=inside).to(tl.float32)
    tl.store(out_ptr + at, x * tl.sigmoid(gate), mask=inside)


@triton_op("acme_triton::gated", mutates_args=())
def gated(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Multiply a tensor by the sigmoid of another one of the same shape and dtype."""
    x, gate = x.contiguous(), gate.contiguous()
    out = torch.empty_like(x)
    blocks = (triton.cdiv(x.numel(), BLOCK),)
    wrap_triton(gated_kernel)[blocks](x, gate, out, x.numel(), block=BLOCK)
    return out


@gated.register_kernel("cpu")
def plain_gated(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute the same in ops of PyTorch: eager on the CPU, and where there is no Triton."""
    return x * torch.sigmoid(gate)
