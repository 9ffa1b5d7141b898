"""The operator ``gguf_linear``, for which the runtime has kernels on the CPU and on Apple GPUs."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights import gguf


@torch.library.custom_op("aoti_plugins::gguf_linear", mutates_args=(), device_types="cpu")
def gguf_linear(x: Tensor, blocks: Tensor, bias: Tensor | None, kind: str) -> Tensor:
    """A product with the transpose of a weight ``[n, k]`` in blocks of GGUF files.

    Here it is computed by PyTorch; programs call the runtime, which reads the blocks as they are.

    Args:
        x: ``[..., k]``: float32, float16 or bfloat16.
        blocks: ``[n, nbytes]`` of uint8, as ``small_weights.gguf`` says.
        bias: ``[n]``, floats.
        kind: ``"q4_k"``, ``"q5_k"`` or ``"q6_k"``.

    Returns:
        ``[..., n]``, the dtype of x.
    """
    weight = gguf.read(blocks, kind).values()
    found = torch.nn.functional.linear(x.float(), weight, None if bias is None else bias.float())
    return found.to(x.dtype)


@gguf_linear.register_fake
def _(x, blocks, bias, kind):  # type: ignore[no-untyped-def]
    del bias, kind
    return x.new_empty((*x.shape[:-1], blocks.size(0)))
