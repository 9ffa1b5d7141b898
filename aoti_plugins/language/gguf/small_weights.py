"""Tensors of GGUF files as weights that are exported in their bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from executorch.extension.llm.export.gguf import ExportableGGUFTensor
    from executorch.extension.llm.export.int4 import ExportableInt4Tensor
    from torchao.quantization import IntxUnpackedToInt8Tensor

_GROUP = 32
_SCALE_NBYTES = 2
_MIDDLE_OF_4_BITS = 8


class GgufBlocks(ExportableGGUFTensor):
    """Blocks of 256 weights. An embedding reads the rows that it needs, and no others."""


@GgufBlocks.implements([torch.ops.aten.embedding.default])
def _(func: Any, types: Any, args: Any, kwargs: Any) -> Tensor:
    weight, indices = args[0], args[1]
    rows = torch.nn.functional.embedding(indices.flatten(), weight.raw)
    chosen = torch.ops.torchao.dequantize_gguf(rows, weight.ggml_type, weight.orig_dtype)
    return chosen.view(*indices.shape, chosen.size(1))


def small_weight(rows: np.ndarray, kind: str, dtype: torch.dtype) -> Tensor:
    """A matrix, without a change of its numbers.

    Args:
        rows: ``[n, nbytes]`` of uint8, blocks as the file has them. They are copied.
        kind: one of ``OF_LAYERS``.
        dtype: of the activations.

    Returns:
        ``[n, k]``, a weight of a linear layer.
    """
    return OF_LAYERS[kind](torch.from_numpy(rows.copy()), kind, dtype)


def _blocks(rows: Tensor, kind: str, dtype: torch.dtype) -> Tensor:
    return GgufBlocks(rows, kind.lower(), dtype)


def _of_4_bits(rows: Tensor, _: str, dtype: torch.dtype) -> Tensor:
    """Blocks of 32: a scale, then the halves of 16 bytes, the lower ones first."""
    scale, rest = _split(rows, 16)
    codes = torch.cat((rest & 15, rest >> 4), -1).flatten(1)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    zero = torch.full_like(scale.t(), _MIDDLE_OF_4_BITS)
    return ExportableInt4Tensor(packed, scale.t().contiguous(), zero, _GROUP, dtype)


def _of_8_bits(rows: Tensor, _: str, dtype: torch.dtype) -> Tensor:
    """Blocks of 32: a scale, then signed bytes."""
    scale, rest = _split(rows, 32)
    codes = rest.flatten(1).view(torch.int8)
    zero = torch.zeros(scale.shape, dtype=torch.int8)
    return IntxUnpackedToInt8Tensor(codes, scale, zero, torch.int8, (1, _GROUP), dtype, None)


def _split(rows: Tensor, nbytes: int) -> tuple[Tensor, Tensor]:
    """The scales ``[n, groups]`` of blocks, float16, and their codes ``[n, groups, nbytes]``."""
    blocks = rows.unflatten(1, (-1, _SCALE_NBYTES + nbytes))
    scale = blocks[..., :_SCALE_NBYTES].contiguous().view(torch.float16)[..., 0]
    return scale, blocks[..., _SCALE_NBYTES:].contiguous()


OF_LAYERS: dict[str, Callable[[Tensor, str, torch.dtype], Tensor]] = {
    **dict.fromkeys(("Q4_K", "Q5_K", "Q6_K"), _blocks),
    "Q4_0": _of_4_bits,
    "Q8_0": _of_8_bits,
}
"""Types of which weights of linear layers and embeddings are exported in their bits."""
