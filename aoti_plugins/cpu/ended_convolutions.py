"""Convolutions with something at the end, for which the runtime has kernels on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from aoti_plugins.cpu.quantized_convolution import convolved
from aoti_plugins.lowering.runtime_ops import runtime_op

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "hardsigmoid": torch.ops.aten.hardsigmoid.default,
    "hardswish": torch.ops.aten.hardswish.default,
    "sigmoid": torch.ops.aten.sigmoid.default,
    "silu": torch.ops.aten.silu.default,
}
"""What the runtime computes at the end of ``activated_convolution``."""


@runtime_op("aoti_plugins::clamped_convolution", device_types="cpu")
def clamped_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    least: float | None,
    most: float | None,
) -> Tensor:
    """A convolution over two dims whose result is kept between two numbers.

    Here it is computed by PyTorch; programs call the runtime.

    Args:
        x: ``[n, c, h, w]``, float32; fast where it is channels-last.
        weight: ``[out, c / groups, height, width]``, float32, channels-last.
        bias: ``[out]``, float32.
        stride: of each dim.
        padding: likewise, at both ends; or four numbers, before each dim and then behind.
        dilation: likewise.
        groups: of channels.
        least: the smallest result; no limit where it is none.
        most: the largest.

    Returns:
        ``[n, out, h', w']``, channels-last without gaps.
    """
    found = _convolution(x, weight, bias, stride, padding, dilation, groups)
    if least is not None or most is not None:
        found = found.clamp(least, most)
    return found.contiguous(memory_format=torch.channels_last).clone()


@runtime_op("aoti_plugins::activated_convolution", device_types="cpu")
def activated_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: str,
) -> Tensor:
    """A convolution over two dims whose result is activated.

    Args:
        x: ``[n, c, h, w]``, float32; fast where it is channels-last.
        weight: ``[out, c / groups, height, width]``, float32, channels-last.
        bias: ``[out]``, float32.
        stride: as of ``clamped_convolution``.
        padding: likewise.
        dilation: likewise.
        groups: of channels.
        activation: one of ``ACTIVATIONS``.

    Returns:
        ``[n, out, h', w']``, channels-last without gaps.
    """
    found = ACTIVATIONS[activation](
        _convolution(x, weight, bias, stride, padding, dilation, groups)
    )
    return found.contiguous(memory_format=torch.channels_last).clone()


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    top, left, bottom, right = (*padding, *padding) if len(padding) == 2 else padding
    padded = torch.nn.functional.pad(x, (left, right, top, bottom))
    return torch.nn.functional.conv2d(padded, weight, bias, list(stride), 0, list(dilation), groups)


@clamped_convolution.register_fake
@activated_convolution.register_fake
def _(x, weight, bias, stride, padding, dilation, *others):  # type: ignore[no-untyped-def]
    del bias, others
    return convolved(x, weight, stride, padding, dilation)
