"""The ops of ExecuTorch's ``extension/llm/export`` that make weights of constants of few bits.

They read the constants as they are, so a program holds nothing larger. All compute in float32, as
the ops do. Unlike these they also take rows of constants in more than one dimension.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights import gguf
from aoti_plugins.lowering.small_weights.fields import fields
from aoti_plugins.lowering.small_weights.floats import BY_DTYPE, float4_e2m1, float8_e4m3fn


def dequantize_int4_tensor(
    qdata: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    group_size: int,
    output_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """``torchao::dequantize_int4_tensor``: two codes in a byte, scales and zeros transposed."""
    codes = fields(qdata.view(torch.uint8), 8, 4).float()
    scales, zeros = (one.movedim(0, -1).float()[..., None] for one in (scale, zero_point))
    groups = codes.unflatten(-1, (-1, group_size)) - zeros
    return (groups * scales).flatten(-2).to(output_dtype)


def dequantize_gguf(
    weight: Tensor, ggml_type: str, output_dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """``torchao::dequantize_gguf``: blocks as GGUF files have them."""
    return gguf.read(weight, ggml_type).values().to(output_dtype)


def dequantize_nvfp4(
    qdata: Tensor,
    scale: Tensor,
    per_tensor_scale: Tensor,
    block_size: int,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """``torchao::dequantize_nvfp4``: eight floats of 4 bits in a word, scales of 8 bits."""
    values = float4_e2m1(fields(qdata.view(torch.int32), 32, 4))
    scales = float8_e4m3fn(scale.view(torch.uint8).to(torch.int32)) * per_tensor_scale
    groups = values.unflatten(-1, (-1, block_size)) * _by_group(scales, values, block_size)
    return groups.flatten(-2).to(output_dtype)


def dequantize_mx(
    qdata: Tensor,
    scale: Tensor,
    elem_dtype: torch.dtype,
    block_size: int,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """``torchao::dequantize_mx``: floats of 8 bits, a power of two for each group."""
    values, scales = (
        BY_DTYPE[dtype](one.view(torch.uint8).to(torch.int32))
        for one, dtype in ((qdata, elem_dtype), (scale, torch.float8_e8m0fnu))
    )
    groups = values.unflatten(-1, (-1, block_size)) * _by_group(scales, values, block_size)
    return groups.flatten(-2).to(output_dtype)


def _by_group(scales: Tensor, values: Tensor, block_size: int) -> Tensor:
    """Scales in any shape as ``[..., groups, 1]``."""
    return scales.reshape(*values.shape[:-1], values.size(-1) // block_size, 1)


OF_TORCHAO: dict[str, Callable[..., Tensor]] = {
    "dequantize_int4_tensor": dequantize_int4_tensor,
    "dequantize_gguf": dequantize_gguf,
    "dequantize_nvfp4": dequantize_nvfp4,
    "dequantize_mx": dequantize_mx,
}
"""By name: they are there only if somebody imported what defines them."""
