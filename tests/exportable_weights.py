"""Weights in the forms of ExecuTorch's ``extension/llm/export``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from executorch.extension.llm.export import gguf, int4, mx, nvfp4
    from torchao.quantization import quantize_

_FLOATS_OF_BLOCK = {"q4_k": slice(0, 4), "q5_k": slice(0, 4), "q6_k": slice(208, 210)}


def int4_of(n: int, k: int, dtype: torch.dtype, group_size: int = 32) -> Any:
    """Any codes, with scales of a dtype and zeros."""
    codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    scale = (torch.rand(k // group_size, n) / 64).to(dtype)
    zero = torch.randint(0, 16, (k // group_size, n)).to(dtype)
    return int4.ExportableInt4Tensor(codes, scale, zero, group_size, dtype)


def gguf_of(n: int, k: int, dtype: torch.dtype, kind: str) -> Any:
    """Any blocks, whose floats are small."""
    blocks = torch.randint(0, 256, (n, k // 256, gguf._BLOCK_BYTES_BY_TYPE[kind]))
    blocks = blocks.to(torch.uint8)
    floats = blocks[..., _FLOATS_OF_BLOCK[kind]]
    small = (torch.rand(*floats.shape[:-1], floats.size(-1) // 2) / 4096).half()
    floats.copy_(small.view(torch.uint8))
    return gguf.ExportableGGUFTensor(blocks.flatten(1), kind, dtype)


def quantised_by(config: Any, n: int, k: int, dtype: torch.dtype) -> Any:
    """Random numbers as a config of ExecuTorch's has them."""
    linear = nn.Linear(k, n, dtype=torch.bfloat16).requires_grad_(False)
    quantize_(linear, config)
    weight: Any = linear.weight
    return weight.to(dtype)


FORMS: dict[str, Callable[[int, int, torch.dtype], Any]] = {
    "int4": int4_of,
    "int4, groups of 128": lambda n, k, dtype: int4_of(n, k, dtype, 128),
    "q4_k": lambda n, k, dtype: gguf_of(n, k, dtype, "q4_k"),
    "q5_k": lambda n, k, dtype: gguf_of(n, k, dtype, "q5_k"),
    "q6_k": lambda n, k, dtype: gguf_of(n, k, dtype, "q6_k"),
    "nvfp4": lambda n, k, dtype: quantised_by(nvfp4.ExportableNVFP4Config(), n, k, dtype),
    "mxfp8": lambda n, k, dtype: quantised_by(mx.ExportableMXConfig(), n, k, dtype),
}


def values_of(weight: Any) -> Tensor:
    """What a weight stands for, in float64; PyTorch without the package ``gguf`` does it, too."""
    if not isinstance(weight, gguf.ExportableGGUFTensor):
        return weight.dequantize(torch.float32).double()
    n, k = weight.shape
    read = {"q4_k": gguf._q4_k_fields, "q5_k": gguf._q5_k_fields, "q6_k": gguf._q6_k_fields}
    codes, scale, *minimum = read[weight.ggml_type](weight.raw, n, k)
    groups = codes.double().unflatten(1, (scale.size(1), -1)) * scale.double()[..., None]
    return (groups - minimum[0].double()[..., None] if minimum else groups).flatten(1)


class OneProduct(nn.Module):
    """A linear layer with such a weight."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


class WithBias(OneProduct):
    """The same, with random numbers that are added to each row."""

    def __init__(self, weight: Any) -> None:
        super().__init__(weight)
        self.bias = nn.Parameter(torch.randn(weight.shape[0]).to(weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


class Rows(nn.Module):
    """An embedding with such a weight."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, indices: Tensor) -> Tensor:
        return nn.functional.embedding(indices, self.weight)


class Tied(nn.Module):
    """An embedding and a head with one such weight."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, indices: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = nn.functional.embedding(indices, self.weight)
        return rows, nn.functional.linear(x, self.weight)
