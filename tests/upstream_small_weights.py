"""Layers with weights in the forms of ExecuTorch's own CUDA backend, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import executorch.backends.cuda.quantize_op_dispatch  # noqa: F401  registers the ops
import torch
from executorch.backends.cuda.coalesced_int4_tensor import CudaCoalescedInt4Tensor
from executorch.backends.cuda.dp4a_planar_int5_tensor import CudaDp4aPlanarInt5Tensor, pack_int5
from executorch.backends.cuda.dp4a_planar_int6_tensor import CudaDp4aPlanarInt6Tensor, pack_int6
from torch import Tensor
from torchao.quantization import IntxUnpackedToInt8Tensor

N, K = 192, 768
MOST_ROWS_OF_PLANES = 4
"""Rows for which upstream calls the runtime's kernels; for more it generates a product."""


@dataclass(frozen=True)
class SmallWeight:
    """A layer, the values ``[n, k]`` of its weight in float64, and rows of inputs to try."""

    layer: torch.nn.Module
    values: Tensor
    rows: tuple[int, ...] = (1, 3, MOST_ROWS_OF_PLANES)


class TilePackedLinear(torch.nn.Module):
    """A product with a weight of 4 bits that is packed for tensor cores."""

    def __init__(self, packed: Tensor, scales_and_zeros: Tensor, group_size: int) -> None:
        super().__init__()
        self.register_buffer("packed", packed)
        self.register_buffer("scales_and_zeros", scales_and_zeros)
        self.group_size = group_size

    def forward(self, x: Tensor) -> Tensor:
        """``[m, k]`` to ``[m, n]``."""
        op = torch.ops.aten._weight_int4pack_mm.default
        product: Tensor = op(x, self.packed, self.group_size, self.scales_and_zeros)
        return product


class PlainProduct(torch.nn.Module):
    """A product by upstream's op for whatever rows, where its layers ask how many there are."""

    def __init__(self, form: str, layer: torch.nn.Module) -> None:
        super().__init__()
        weight: Any = layer.weight
        self.op = getattr(torch.ops.executorch_cuda, f"{form.split('_')[0]}_plain_mm").default
        self.group_size = weight.block_size[-1]
        self.names = [f"part_{name}" for name in weight.tensor_data_names]
        for name in weight.tensor_data_names:
            self.register_buffer(f"part_{name}", getattr(weight, name))

    def forward(self, x: Tensor) -> Tensor:
        """``[m, k]`` to ``[m, n]``."""
        parts = [getattr(self, name) for name in self.names]
        product: Tensor = self.op(x, *parts, self.group_size)
        return product


def small_weight(form: str) -> SmallWeight:
    """A weight of random numbers in one of ``FORMS``."""
    torch.manual_seed(0)
    return FORMS[form]()


def _linear(weight: Tensor) -> torch.nn.Module:
    layer = torch.nn.Linear(K, N, bias=False, dtype=torch.bfloat16)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return layer.eval()


def _codes(low: int, high: int, dtype: torch.dtype, columns: int = K) -> Tensor:
    return torch.randint(low, high, (N, columns), dtype=dtype)


def _steps(most: float) -> Tensor:
    """A step for each 256 weights of a row."""
    return ((torch.rand(N, K // 256) + 0.5) * most).to(torch.float16)


def _stepped(codes: Tensor, steps: Tensor) -> Tensor:
    """What codes of scales or zeros stand for, in float64."""
    return codes.double() * steps.double().repeat_interleave(codes.size(1) // steps.size(1), 1)


def _values(codes: Tensor, scales: Tensor, zeros: Tensor | float) -> Tensor:
    groups = codes.double().unflatten(1, (scales.size(1), -1))
    zero = zeros[..., None] if isinstance(zeros, Tensor) else zeros
    return ((groups - zero) * scales[..., None]).flatten(1)


def _int4(group_size: int) -> SmallWeight:
    groups = K // group_size
    codes = _codes(0, 16, torch.uint8)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    scale, zero = (_codes(0, 256, torch.uint8, groups) for _ in range(2))
    scale_step, zero_step = _steps(1e-4), _steps(0.06)
    weight = CudaCoalescedInt4Tensor(
        packed, scale, scale_step, zero, zero_step, [1, group_size], torch.Size([N, K])
    )
    values = _values(codes, _stepped(scale, scale_step), _stepped(zero, zero_step))
    return SmallWeight(_linear(weight), values)


def _int5(group_size: int) -> SmallWeight:
    groups = K // group_size
    codes = _codes(0, 32, torch.uint8)
    scale, zero = (_codes(0, 256, torch.uint8, groups) for _ in range(2))
    scale_step, zero_step = _steps(1e-4), _steps(0.12)
    weight = CudaDp4aPlanarInt5Tensor(
        *pack_int5(codes), scale, scale_step, zero, zero_step, [1, group_size], torch.Size([N, K])
    )
    values = _values(codes, _stepped(scale, scale_step), _stepped(zero, zero_step))
    return SmallWeight(_linear(weight), values)


def _int6(group_size: int) -> SmallWeight:
    codes = _codes(-32, 32, torch.int8)
    scale = _codes(-127, 128, torch.int8, K // group_size)
    steps = _steps(1e-4)
    weight = CudaDp4aPlanarInt6Tensor(
        *pack_int6(codes), scale, steps, [1, group_size], torch.Size([N, K])
    )
    return SmallWeight(_linear(weight), _values(codes, _stepped(scale, steps), 0.0))


def _int8(group_size: int) -> SmallWeight:
    groups = K // group_size
    codes = _codes(-128, 128, torch.int8)
    scale = (torch.randn(N, groups) / 100).to(torch.bfloat16)
    zero = _codes(-20, 21, torch.int8, groups)
    weight = IntxUnpackedToInt8Tensor(
        codes, scale, zero, torch.int8, (1, group_size), torch.bfloat16, None
    )
    return SmallWeight(_linear(weight), _values(codes, scale.double(), zero.double()))


def _tiles(group_size: int) -> SmallWeight:
    groups = K // group_size
    codes = _codes(0, 16, torch.int32)
    both = (torch.randn(groups, N, 2) / 10).to(torch.bfloat16)
    scale, zero = (both[..., i].t().double() for i in (0, 1))
    values = _values(codes, scale, 8.0) + zero.repeat_interleave(group_size, 1)
    layer = TilePackedLinear(_packed_for_tensor_cores(codes), both, group_size)
    return SmallWeight(layer, values, rows=(1, 8, 40))


def _packed_for_tensor_cores(codes: Tensor) -> Tensor:
    """``[n / 8, k / 128, 32, 4]``: a word has pairs of columns of two tiles of 16."""
    split = codes.view(N // 8, 8, K // 128, 4, 2, 2, 4, 2)
    words = split.permute(0, 2, 1, 6, 3, 7, 4, 5).reshape(N // 8, K // 128, 32, 4, 8)
    shifts = torch.arange(0, 32, 4, dtype=torch.int64)
    return (words.to(torch.int64) << shifts).sum(-1).to(torch.int32)


FORMS: dict[str, Callable[[], SmallWeight]] = {
    "int4": lambda: _int4(32),
    "int4_groups_of_128": lambda: _int4(128),
    "int5": lambda: _int5(32),
    "int6": lambda: _int6(16),
    "int8": lambda: _int8(32),
    "int8_rows": lambda: _int8(K),
    "tiles": lambda: _tiles(32),
    "tiles_groups_of_128": lambda: _tiles(128),
}
