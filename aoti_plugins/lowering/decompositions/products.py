"""Products of matrices in the terms of plain ones, which every runtime has kernels for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.arithmetic import is_integer
from aoti_plugins.lowering.decompositions.row_groups import products_of_groups
from aoti_plugins.lowering.decompositions.windows import accumulation_dtype


def addbmm(x: Tensor, left: Tensor, right: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``aten.addbmm.default``: the sum of the products of a batch, as one product."""
    batch, rows, inner = left.shape
    wide = left.permute(1, 0, 2).reshape(rows, batch * inner)
    total = wide @ right.reshape(batch * inner, right.size(2))
    scaled = total if alpha == 1 else total * alpha
    return (
        scaled.expand(torch.broadcast_shapes(x.shape, scaled.shape)).clone()
        if beta == 0
        else (x * beta + scaled)
    )


def addmm_activation(
    bias: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    use_gelu: bool = False,
) -> Any:
    """``aten._addmm_activation.default``."""
    found = torch.addmm(bias, left, right, beta=beta, alpha=alpha)
    return torch.nn.functional.gelu(found) if use_gelu else torch.relu(found)


def integer_product(left: Tensor, right: Tensor) -> Any:
    """``aten.mm.default`` and ``aten.bmm.default`` of integers, in generated code."""
    if not is_integer(left.dtype):
        return NotImplemented
    return (left[..., None] * right[..., None, :, :]).sum(-2, dtype=left.dtype)


def mm_of_dtype(left: Tensor, right: Tensor, out_dtype: torch.dtype) -> Any:
    """``aten.mm.dtype``: a product of 16-bit floats in ``out_dtype``."""
    return _as(left, out_dtype) @ _as(right, out_dtype)


def int_mm(left: Tensor, right: Tensor) -> Any:
    """``aten._int_mm.default``: int8 matrices to int32."""
    return _as(left, torch.int32) @ _as(right, torch.int32)


def weight_int8pack_mm(x: Tensor, weight: Tensor, scales: Tensor) -> Any:
    """``aten._weight_int8pack_mm.default``: ``x [m, k]``, ``weight [n, k]`` of int8."""
    return (x @ _as(weight, x.dtype).t()) * scales


def trilinear(
    x: Tensor,
    y: Tensor,
    z: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Any:
    """``aten._trilinear.default``: the product of three tensors, summed over some dimensions."""
    del unroll_dim  # only a matter of speed
    expanded = ((x, expand1), (y, expand2), (z, expand3))
    x, y, z = (reduce(torch.unsqueeze, sorted(dims), one) for one, dims in expanded)
    wide = accumulation_dtype(x.dtype)
    product = x.to(wide) * y.to(wide) * z.to(wide)
    return (product.sum(list(sumdim)) if sumdim else product).to(x.dtype)


def bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """``aten.bilinear.default``: ``x [..., m]``, ``y [..., n]`` and ``weight [k, m, n]``."""
    outs, left, _ = weight.shape
    wide = x @ weight.reshape(outs * left, -1).view(outs, left, -1).permute(1, 0, 2).flatten(1)
    found = (wide.unflatten(-1, (outs, -1)) * y[..., None, :]).sum(-1)
    return found if bias is None else found + bias


def scaled_mm(
    left: Tensor,
    right: Tensor,
    scale_left: Tensor,
    scale_right: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Any:
    """``aten._scaled_mm.default`` with one scale for a tensor, or one for each row and column."""
    del use_fast_accum
    is_plain = all(scale.dtype == torch.float32 for scale in (scale_left, scale_right))
    if not is_plain or (scale_left.numel() != 1 and scale_left.numel() != left.size(0)):
        return NotImplemented  # scales of blocks
    left_, right_ = _as(left, torch.float32), _as(right, torch.float32)
    product = (left_ * scale_left) @ (right_ * scale_right)
    if bias is not None:
        product = product + bias.float()
    if scale_result is not None:
        product = product * scale_result
    return product.to(out_dtype or left.dtype)


def grouped_mm(
    left: Tensor,
    right: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """``aten._grouped_mm.default``: batches of matrices, one of which may be one behind the other.

    ``offs [groups]`` says where each group ends: of rows of ``left``, of columns of ``right``, or
    of the dimension that is summed over.
    """
    if bias is not None:
        return NotImplemented
    dtype = out_dtype or left.dtype
    if offs is None:
        return torch.bmm(left, right).to(dtype)
    groups = offs.size(0)
    if not isinstance(groups, int):
        return NotImplemented
    if left.dim() == 2 and right.dim() == 3:
        return products_of_groups(left, right, offs).to(dtype)
    if left.dim() == 3:
        return products_of_groups(right.t(), left.mT, offs).t().to(dtype)
    member = _members(offs, left.size(1))
    return torch.stack([torch.where(member[g], left, 0) @ right for g in range(groups)]).to(dtype)


def scaled_grouped_mm(
    left: Tensor,
    right: Tensor,
    scale_left: Tensor,
    scale_right: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Any:
    """``aten._scaled_grouped_mm.default``: rows of ``left`` by groups, a scale for each."""
    del use_fast_accum
    if scale_result is not None or left.dim() != 2 or right.dim() != 3:
        return NotImplemented
    rows = _as(left, torch.float32) * scale_left[:, None]
    matrices = _as(right, torch.float32) * scale_right[:, None, :]
    found = grouped_mm(rows, matrices, offs, bias)
    return found if found is NotImplemented else found.to(out_dtype or torch.bfloat16)


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Row-major, since ExecuTorch can express few other layouts of copies."""
    return x.to(dtype, memory_format=torch.contiguous_format)


def _members(ends: Tensor, size: int) -> Tensor:
    """``[groups, size]``: which elements belong to which group."""
    order = torch.arange(size, device=ends.device)
    before = torch.cat((torch.zeros_like(ends[:1]), ends[:-1]))
    return (order >= before[:, None]) & (order < ends[:, None])
