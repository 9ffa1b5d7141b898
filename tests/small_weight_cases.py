"""Models whose products have weights of 4 and 8 bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.quantization.quant_primitives import MappingType

WIDTH, HIDDEN = 256, 64

CONFIGS: dict[str, Callable[[], Any]] = {
    "int4, groups of 32": lambda: IntxWeightOnlyConfig(torch.int4, PerGroup(32)),
    "int4, groups of 128, zeros": lambda: IntxWeightOnlyConfig(
        torch.int4, PerGroup(128), mapping_type=MappingType.ASYMMETRIC
    ),
    "int4, rows": lambda: IntxWeightOnlyConfig(torch.int4, PerAxis(0)),
    "int8, rows": lambda: IntxWeightOnlyConfig(torch.int8, PerAxis(0)),
    "int8, groups of 64, zeros": lambda: IntxWeightOnlyConfig(
        torch.int8, PerGroup(64), mapping_type=MappingType.ASYMMETRIC
    ),
    "int8 by a cast": lambda: Int8WeightOnlyConfig(version=2),
}


class Linears(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Linear(WIDTH, HIDDEN, dtype=dtype)
        self.last = nn.Linear(HIDDEN * 2, 24, bias=False, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        return self.last(torch.cat((first.relu(), first), -1))


def quantised(name: str, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    """``Linears`` with weights of a form."""
    model = Linears(dtype).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_(model, CONFIGS[name]())
    return model


def dequantised(model: nn.Module) -> nn.Module:
    """The model with what its weights stand for, in float64."""
    plain = Linears(torch.float64).eval()
    with torch.no_grad():
        for one, other in zip(plain.modules(), model.modules(), strict=True):
            if isinstance(one, nn.Linear) and isinstance(other, nn.Linear):
                one.weight.copy_(values_of(other.weight))
                if other.bias is not None:
                    one.bias.copy_(other.bias)
    return plain


def values_of(weight: Any) -> Tensor:
    """What the codes of torchao's tensors stand for, without rounding."""
    scale = weight.scale.double().reshape(weight.shape[0], -1)
    groups = weight.qdata.double().unflatten(1, (scale.size(1), -1))
    zero = getattr(weight, "zero_point", None)
    if zero is not None:
        groups = groups - zero.double().reshape(*scale.shape, 1)
    return (groups * scale[..., None]).flatten(1)
