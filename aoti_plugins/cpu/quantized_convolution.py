"""The operator ``quantized_convolution``, for which the runtime has kernels on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from aoti_plugins.lowering.runtime_ops import runtime_op


@runtime_op("aoti_plugins::quantized_convolution", device_types="cpu")
def quantized_convolution(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    x_scale: float,
    x_zero: int,
    y_scale: float,
    y_zero: int,
    least: float | None,
    most: float | None,
) -> Tensor:
    """A convolution over two dims of numbers of 8 bits, of which the result is rounded to 8 bits.

    A number of x stands for ``(number - x_zero) * x_scale``, one of the result likewise. Here it is
    computed by PyTorch; programs call the runtime.

    Args:
        x: ``[n, c, h, w]``, int8; fast where it is channels-last.
        weight: ``[out, c / groups, height, width]``, int8, channels-last.
        scale: ``[out]``, float32: what a number of the weight stands for.
        bias: ``[out]``, float32.
        stride: of each dim.
        padding: likewise, at both ends, with numbers that stand for 0.
        dilation: likewise.
        groups: of channels.
        x_scale: positive.
        x_zero: -128 to 127.
        y_scale: of the result.
        y_zero: likewise.
        least: what the result, as a value, is at least; no limit where it is none.
        most: at most.

    Returns:
        ``[n, out, h', w']``, int8, channels-last without gaps.
    """
    found = torch.nn.functional.conv2d(
        x.double() - x_zero,
        weight.double(),
        None,
        list(stride),
        list(padding),
        list(dilation),
        groups,
    )
    found = found * (x_scale * scale.double().view(-1, 1, 1))
    if bias is not None:
        found = found + bias.view(-1, 1, 1)
    if least is not None or most is not None:
        found = found.clamp(least, most)
    numbers = (found / y_scale).round().add(y_zero).clamp(-128, 127).to(torch.int8)
    return numbers.contiguous(memory_format=torch.channels_last).clone()


@quantized_convolution.register_fake
def _(x, weight, scale, bias, stride, padding, dilation, *others):  # type: ignore[no-untyped-def]
    del scale, bias, others
    return convolved(x, weight, stride, padding, dilation)


def convolved(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """An empty tensor like the result of a convolution over two dims, channels-last.

    ``padding`` has the numbers of both dims at both ends, or those before and then those behind.
    """
    padded = [x.size(d + 2) + padding[d] + padding[d - 2] for d in range(2)]
    sizes = [
        (padded[d] - dilation[d] * (weight.size(d + 2) - 1) - 1) // stride[d] + 1 for d in range(2)
    ]
    shape = (x.size(0), weight.size(0), *sizes)
    return x.new_empty(shape).contiguous(memory_format=torch.channels_last)
