"""Matrices of experts, which transformers holds in one parameter for all experts of a layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parametrize

_NAMES = ("gate_up_proj", "up_proj", "down_proj")
_IMPLEMENTATION = "batched_mm"
"""How transformers multiplies: by the matrices that rows have chosen, taken out of all."""

_MOST_CODES = 1 << 28


def expert_matrices(model: Any) -> dict[str, tuple[torch.nn.Module, str]]:
    """The experts' matrices that can be made small: modules and names of their parameters.

    They are ``[experts, columns, k]``, so that a group lies in a row. Models whose experts are
    transposed, or are layers of their own, have none.
    """
    return {
        f"{name}.{kind}": (module, kind)
        for name, module in model.named_modules()
        if getattr(module, "is_transposed", None) is False and hasattr(module, "num_experts")
        for kind in _NAMES
        if isinstance(parameter := getattr(module, kind, None), Tensor) and parameter.dim() == 3
    }


def quantize_experts(model: Any, dtype: torch.dtype, group_size: int) -> None:
    """Quantise the experts' matrices of a model in place, as torchao does weights of layers.

    Args:
        model: with its weights.
        dtype: of the codes, ``torch.int4`` or ``torch.int8``.
        group_size: how many weights of a row have one scale.
    """
    found = expert_matrices(model)
    for module, name in found.values():
        quantize_matrices(module, name, dtype, group_size)
    if found:
        model.set_experts_implementation(_IMPLEMENTATION)


def quantize_matrices(
    module: torch.nn.Module, name: str, dtype: torch.dtype, group_size: int
) -> None:
    """Quantise a parameter ``[experts, columns, k]`` in place; what reads it reads floats.

    Args:
        module: has the parameter.
        name: of the parameter in it.
        dtype: of the codes, ``torch.int4`` or ``torch.int8``.
        group_size: how many weights of a row have one scale.
    """
    weight = module.get_parameter(name).requires_grad_(False)
    codes = _Codes(dtype, group_size, weight.size(0), weight.dtype)
    parametrize.register_parametrization(module, name, codes, unsafe=True)


class _Codes(torch.nn.Module):
    """Stands for a parameter ``[experts, columns, k]``: codes, scales and zeros of its rows."""

    def __init__(
        self, dtype: torch.dtype, group_size: int, experts: int, made_dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.dtype, self.group_size, self.experts = dtype, group_size, experts
        self.made_dtype = made_dtype

    def forward(self, codes: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        """The matrices that codes stand for; in a program only those that are asked for."""
        low, high = (-8, 7) if self.dtype == torch.int4 else (-128, 127)
        block = (1, self.group_size)
        rows = torch.ops.torchao.dequantize_affine(
            codes, block, scale, zero_point, torch.int8, low, high, output_dtype=self.made_dtype
        )
        return rows.unflatten(0, (self.experts, -1))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Codes, scales and zeros of ``[experts * columns, k]``, some experts at a time."""
        from torchao.quantization import IntxUnpackedToInt8Tensor

        step = max(1, _MOST_CODES // weight[0].numel())
        block = (1, self.group_size)
        parts = [
            IntxUnpackedToInt8Tensor.from_hp(some.flatten(0, 1), block, self.dtype)
            for some in weight.detach().split(step)
        ]
        return (
            torch.cat([part.qdata for part in parts]),
            torch.cat([part.scale for part in parts]),
            torch.cat([part.zero_point for part in parts]),
        )
