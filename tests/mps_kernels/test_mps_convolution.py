"""Convolutions on emulated Apple GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from mps_operators import OperatorError, Operators, check, ints, optional, random


@dataclass(frozen=True)
class Case:
    """Sizes of the input and the weights, and what differs from the default arguments."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    bias: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """All of PyTorch's arguments behind the bias, lists in full length."""
        defaults = {"stride": 1, "padding": 0, "dilation": 1, "transposed": False}
        named = {**defaults, "output_padding": 0, "groups": 1, **self.options}
        count = len(self.w) - 2
        lists = ("stride", "padding", "dilation", "output_padding")
        return {
            name: [value] * count if name in lists and isinstance(value, int) else value
            for name, value in named.items()
        }

    def tensors(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        transposed = self.options.get("transposed", False)
        channels = self.w[1] * self.options.get("groups", 1) if transposed else self.w[0]
        bias = random(dtype, channels) if self.bias else None
        return random(dtype, *self.x), random(dtype, *self.w), bias


CASES = {
    "1d": Case((2, 4, 20), (10, 4, 3), options={"padding": 1}),
    "stride": Case((1, 8, 9, 9), (40, 8, 3, 3), options={"padding": 1, "stride": 2}),
    "simdgroup": Case((1, 16, 8, 8), (64, 16, 3, 3), bias=False, options={"padding": 1}),
    "depthwise": Case((2, 6, 9, 9), (12, 1, 3, 3), options={"groups": 6, "padding": 1}),
    "dilation": Case(
        (2, 8, 5, 6), (8, 4, 2, 3), options={"groups": 2, "dilation": 2, "padding": [2, 3]}
    ),
    "3d": Case((1, 3, 4, 5, 6), (5, 3, 2, 3, 2), options={"padding": [1, 0, 1]}),
    "pointwise": Case((2, 4, 3, 3), (40, 4, 1, 1)),
    "unbatched": Case((4, 7, 7), (5, 4, 3, 3), bias=False),
    "no_images": Case((0, 4, 5, 5), (4, 4, 3, 3)),
    "transposed": Case(
        (1, 4, 5, 5),
        (4, 10, 3, 3),
        options={"transposed": True, "stride": 2, "padding": 1, "output_padding": 1},
    ),
    "transposed_groups": Case(
        (1, 4, 5, 5),
        (4, 2, 3, 3),
        options={"transposed": True, "stride": 3, "groups": 2, "dilation": 2},
    ),
    "transposed_simdgroup": Case(
        (1, 20, 6, 6), (20, 40, 4, 4), options={"transposed": True, "stride": 2, "padding": 1}
    ),
    "transposed_1d": Case((2, 3, 7), (3, 5, 4), options={"transposed": True, "stride": 3}),
}


def convolve(
    operators: Operators,
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    arguments: dict[str, Any],
) -> torch.Tensor:
    def numbers(values: Sequence[int]) -> tuple[Any, int]:
        return ints(values), len(values)

    added = operators.to_mps(bias) if bias is not None else None
    lists = [numbers(arguments[name]) for name in ("stride", "padding", "dilation")]
    (result,) = operators.results(
        "convolution",
        1,
        operators.to_mps(x),
        operators.to_mps(w),
        optional(added),
        *[part for numbers_of in lists for part in numbers_of],
        int(arguments["transposed"]),
        *numbers(arguments["output_padding"]),
        arguments["groups"],
    )
    return result


def expected(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, arguments: dict[str, Any]
) -> torch.Tensor:
    """What eager gives, accumulated in float32."""
    batched = x if x.dim() == w.dim() else x[None]
    added = bias.float() if bias is not None else None
    result = torch.convolution(batched.float(), w.float(), added, *arguments.values())
    return (result if x.dim() == w.dim() else result[0]).to(x.dtype)


@pytest.mark.parametrize("name", CASES)
def test_convolution(operators: Operators, name: str) -> None:
    case = CASES[name]
    tensors, arguments = case.tensors(torch.float32), case.arguments()
    check(lambda: convolve(operators, *tensors, arguments), expected(*tensors, arguments))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=() if quick else pytest.mark.long)
        for dtype in (torch.float16, torch.bfloat16)
        for name in CASES
        for quick in [name in ("stride", "depthwise")]
    ],
    ids=str,
)
def test_reduced_precision(operators: Operators, name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    tensors, arguments = case.tensors(dtype), case.arguments()
    check(lambda: convolve(operators, *tensors, arguments), expected(*tensors, arguments))


@pytest.mark.parametrize("sizes", [(2, 8, 6, 6), (1, 8, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("last", ["input", "weight", "both"])
def test_channels_last(operators: Operators, sizes: tuple[int, ...], last: str) -> None:
    ndim = len(sizes)
    memory = torch.channels_last if ndim == 4 else torch.channels_last_3d
    x, w = random(torch.float32, *sizes), random(torch.float32, 33, 8, *[2] * (ndim - 2))
    x = x.contiguous(memory_format=memory) if last != "weight" else x
    w = w.contiguous(memory_format=memory) if last != "input" else w
    arguments = Case(tuple(x.shape), tuple(w.shape)).arguments()
    result = convolve(operators, x, w, None, arguments)
    assert result.is_contiguous(memory_format=memory)
    check(lambda: convolve(operators, x, w, None, arguments), expected(x, w, None, arguments))


def test_views_with_steps(operators: Operators) -> None:
    x, w = random(torch.float32, 2, 16, 30)[:, ::2, ::3], random(torch.float32, 12, 8, 6)[..., ::2]
    bias = random(torch.float32, 24)[::2]
    arguments = Case(tuple(x.shape), tuple(w.shape)).arguments()
    check(lambda: convolve(operators, x, w, bias, arguments), expected(x, w, bias, arguments))


def test_without_input_channels_the_bias_is_left(operators: Operators) -> None:
    x, w, bias = torch.zeros(1, 0, 5, 5), torch.zeros(4, 0, 3, 3), random(torch.float32, 4)
    arguments = Case(tuple(x.shape), tuple(w.shape)).arguments()
    wanted = bias[None, :, None, None].expand(1, 4, 3, 3)
    check(lambda: convolve(operators, x, w, bias, arguments), wanted.contiguous())


@pytest.mark.parametrize(
    ("x", "w", "reason"),
    [
        (torch.zeros(1, 3, 5, 5), torch.zeros(4, 4, 3, 3), "3 channels, the weight expects 4"),
        (torch.zeros(1, 4, 5, 5), torch.zeros(4, 4, 3, 3).half(), "weight is float16"),
        (torch.zeros(1, 4, 2, 2), torch.zeros(4, 4, 3, 3), "does not fit"),
        (torch.zeros(1, 4, 5, 5).double(), torch.zeros(4, 4, 3, 3).double(), "no convolution of"),
        (torch.zeros(4), torch.zeros(4, 4), "expected 3 to 5"),
    ],
)
def test_wrong_arguments(
    operators: Operators, x: torch.Tensor, w: torch.Tensor, reason: str
) -> None:
    arguments = Case(tuple(x.shape), tuple(w.shape)).arguments()
    with pytest.raises(OperatorError, match=reason):
        convolve(operators, x, w, None, arguments)
