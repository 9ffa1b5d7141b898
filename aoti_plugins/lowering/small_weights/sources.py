"""What in a program is a weight of 4 or 8 bits.

All forms are brought to one: codes, and for each group of a row a scale and perhaps a zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.decompositions.int4 import rows_for_tensor_cores
from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.program_constants import constant_of
from aoti_plugins.lowering.small_weights import gguf
from aoti_plugins.lowering.small_weights.fields import fields
from aoti_plugins.lowering.small_weights.weight import (
    ADDED_ZERO,
    MIDDLE,
    NO_ZERO,
    ZERO_POINT,
    SmallWeight,
)

_TRANSPOSES = ("aten::t", "aten::t_copy")
_PERMUTES = ("aten::permute", "aten::permute_copy")
CASTS = ("aten::_to_copy", "aten::to", "dim_order_ops::_to_dim_order_copy")
"""Ops that change a dtype, by schema name."""

_INTEGERS = (torch.int8, torch.uint8)
_CODES_OF_4_BITS = 16
_MIDDLE_OF_5_BITS = 16


def weight_of(program: ExportedProgram, node: Any) -> SmallWeight | None:
    """The weight ``[n, k]`` that a node computes from constants."""
    read = _READERS.get(name_of(node))
    return None if read is None else read(program, node)


def is_dequantised(node: Any) -> bool:
    """Whether a node makes floats of codes: of a weight, or of rows of one."""
    return name_of(node) in _READERS


class GgufBlocks(NamedTuple):
    """A weight in blocks of GGUF files, or rows of one.

    Attributes:
        blocks: ``[n, nbytes]`` of uint8; of rows of a weight ``[..., nbytes]``.
        kind: one of ``gguf.NBYTES``.
    """

    blocks: Node
    kind: str


def gguf_blocks_of(node: Any) -> GgufBlocks | None:
    """The blocks of which a node makes floats."""
    return GgufBlocks(*node.args[:2]) if name_of(node) == _GGUF else None


def packed_weight_of(program: ExportedProgram, node: Node) -> SmallWeight | None:
    """The weight of ``aten._weight_int4pack_mm.default``."""
    packed, scales = (constant_of(program, node.args[i]) for i in (1, 3))
    if packed is None or scales is None:
        return None
    codes = rows_for_tensor_cores(packed).to(torch.uint8)
    scale, zero = (scales[..., i].t() for i in (0, 1))
    if codes.size(1) != scale.size(1) * node.args[2]:
        return None
    return SmallWeight(node.args[1].name, codes, scale, zero, 4, ADDED_ZERO)


def affine_weight_of(program: ExportedProgram, node: Any) -> SmallWeight | None:
    """The weight ``[n, k]`` that ``torchao::dequantize_affine`` computes from constants."""
    return _affine(program, node) if name_of(node) == _AFFINE else None


def _affine(program: ExportedProgram, node: Node) -> SmallWeight | None:
    given = arguments_of(node)
    codes, scale = (constant_of(program, given[name]) for name in ("input", "scale"))
    point = None if given["zero_point"] is None else constant_of(program, given["zero_point"])
    if codes is None or scale is None or codes.dim() != 2 or codes.dtype not in _INTEGERS:
        return None
    if (point is None) != (given["zero_point"] is None) or given["block_size"][0] != 1:
        return None
    limits = torch.iinfo(codes.dtype)
    low = limits.min if given["quant_min"] is None else int(given["quant_min"])
    high = limits.max if given["quant_max"] is None else int(given["quant_max"])
    bits = 4 if high - low < _CODES_OF_4_BITS else 8
    first = low if bits == 4 else 0 if codes.dtype == torch.int8 else 128
    groups = codes.size(1) // given["block_size"][1]
    if scale.numel() != codes.size(0) * groups or (point is not None and point.is_floating_point()):
        return None
    zeros = torch.zeros_like(scale) if point is None else point.reshape(scale.shape).to(scale.dtype)
    codes = codes - first if first else codes  # in 8 bits, which may wrap around
    codes = codes.view(torch.uint8 if bits == 4 else torch.int8)
    zeros, scale = (zeros - first).reshape(-1, groups), scale.reshape(-1, groups)
    return _with_zeros(given["input"].name, codes, scale, zeros, bits)


def _int4(program: ExportedProgram, node: Node) -> SmallWeight | None:
    """``torchao::dequantize_int4_tensor``."""
    packed, scale, zero = (constant_of(program, one) for one in node.args[:3])
    if packed is None or scale is None or zero is None:
        return None
    codes = fields(packed.view(torch.uint8), 8, 4).to(torch.uint8)
    return _with_zeros(node.args[0].name, codes, scale.t(), zero.t(), 4)


def _gguf(program: ExportedProgram, node: Node) -> SmallWeight | None:
    """``torchao::dequantize_gguf``: 4 bits, and 5 as 8; groups of ``q6_k`` are too small."""
    rows = constant_of(program, node.args[0])
    if rows is None or node.args[1] == "q6_k":
        return None
    groups = gguf.read(rows, node.args[1])
    if groups.minimum is None:
        return None
    codes, name = groups.codes.flatten(-2), node.args[0].name
    if node.args[1] == "q4_k":
        zero = groups.scale * MIDDLE[4] - groups.minimum
        return SmallWeight(name, codes.to(torch.uint8), groups.scale, zero, 4, ADDED_ZERO)
    zero = groups.scale * _MIDDLE_OF_5_BITS - groups.minimum
    codes = (codes - _MIDDLE_OF_5_BITS).to(torch.int8)
    return SmallWeight(name, codes, groups.scale, zero, 8, ADDED_ZERO)


def _packed(program: ExportedProgram, node: Node) -> SmallWeight | None:
    """``aoti_plugins::packed_weight`` of 8 bits, whose codes lie as they are.

    It is named by its scales: the same codes may stand for several weights.
    """
    codes, scale, zero = (constant_of(program, one) for one in node.args[:3])
    bits, zero_kind = node.args[3], node.args[4]
    if codes is None or scale is None or bits != 8 or (zero is None) != (node.args[2] is None):
        return None
    return SmallWeight(node.args[1].name, codes, scale, zero, bits, zero_kind)


_AFFINE = "torchao::dequantize_affine"
_GGUF = "torchao::dequantize_gguf"
_PACKED = "aoti_plugins::packed_weight"

_READERS = {
    _AFFINE: _affine,
    "torchao::dequantize_int4_tensor": _int4,
    _GGUF: _gguf,
    _PACKED: _packed,
}


def _with_zeros(name: str, codes: Tensor, scale: Tensor, zeros: Tensor, bits: int) -> SmallWeight:
    """A weight whose zeros are taken from its codes, or are left out where that changes nothing."""
    has_zeros = bool((zeros != MIDDLE[bits]).any())
    kind = ZERO_POINT if has_zeros else NO_ZERO
    return SmallWeight(name, codes, scale, zeros if has_zeros else None, bits, kind)


def is_transpose(node: Any) -> bool:
    """Whether a node is a matrix with its dims swapped."""
    name = name_of(node)
    return name in _TRANSPOSES or (name in _PERMUTES and list(node.args[1]) == [1, 0])


def arguments_of(node: Any) -> dict[str, Any]:
    """All arguments of a node by name, defaults filled in."""
    parameters = aten_op(node.target)._schema.arguments
    given = {one.name: one.default_value for one in parameters}
    given.update(zip((one.name for one in parameters), node.args, strict=False))
    return {**given, **node.kwargs}


def name_of(node: Any) -> str:
    """Schema name of the op that a node calls; empty where it calls none."""
    schema = getattr(node.target, "_schema", None) if isinstance(node, Node) else None
    return schema.name if schema is not None else ""
