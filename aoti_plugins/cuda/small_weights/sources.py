"""What in a program is a weight of 4 or 8 bits.

All forms are brought to one: codes, and for each group of a row a scale and perhaps a zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.small_weights.layout import MIDDLE, ROWS
from aoti_plugins.cuda.small_weights.op import ADDED_ZERO, NO_ZERO, ZERO_POINT
from aoti_plugins.lowering.decompositions.int4 import rows_for_tensor_cores
from aoti_plugins.lowering.program_constants import constant_of

_aten = torch.ops.aten

_DEQUANTIZE = "torchao::dequantize_affine"
_TRANSPOSES = ("aten::t", "aten::t_copy")
_PERMUTES = ("aten::permute", "aten::permute_copy")
_INTEGERS = (torch.int8, torch.uint8)
_SMALLEST_GROUP = 32
_CODES_OF_4_BITS = 16


@dataclass(frozen=True)
class SmallWeight:
    """A weight ``[n, k]`` of 4 or 8 bits.

    Attributes:
        name: of the placeholder that held it.
        codes: ``[n, k]``, uint8 from 0 to 15 for 4 bits, int8 for 8.
        scale: ``[n, groups]``.
        zero: likewise; none for ``NO_ZERO``.
        bits: 4 or 8.
        zero_kind: of the zeros, as the operator has them.
    """

    name: str
    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    bits: int
    zero_kind: int

    @property
    def group_size(self) -> int:
        """Weights of a row that have one scale."""
        return self.codes.size(1) // self.scale.size(1)

    def is_supported(self) -> bool:
        """Whether the kernels take its sizes."""
        (n, k), group = self.codes.shape, self.group_size
        is_power = group >= _SMALLEST_GROUP and group & (group - 1) == 0
        return n % ROWS == 0 and k % 8 == 0 and k > 0 and n > 0 and (group == k or is_power)


def weight_of(program: ExportedProgram, node: Any) -> SmallWeight | None:
    """The weight ``[n, k]`` that a node computes from constants."""
    return _dequantized(program, node) if _name(node) == _DEQUANTIZE else None


def transposed_weight_of(program: ExportedProgram, node: Any) -> SmallWeight | None:
    """The weight ``[n, k]`` whose transpose ``[k, n]`` a node computes from constants."""
    return weight_of(program, node.args[0]) if _is_transpose(node) else None


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


def _dequantized(program: ExportedProgram, node: Node) -> SmallWeight | None:
    given = _arguments(node)
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
    zeros = (zeros - first).reshape(-1, groups)
    has_zeros = bool((zeros != MIDDLE[bits]).any())
    wide = codes.to(torch.int16) - first
    return SmallWeight(
        given["input"].name,
        wide.to(torch.uint8 if bits == 4 else torch.int8),
        scale.reshape(-1, groups),
        zeros if has_zeros else None,
        bits,
        ZERO_POINT if has_zeros else NO_ZERO,
    )


def _is_transpose(node: Any) -> bool:
    name = _name(node)
    return name in _TRANSPOSES or (name in _PERMUTES and list(node.args[1]) == [1, 0])


def _arguments(node: Any) -> dict[str, Any]:
    """All arguments of a node by name."""
    parameters = node.target._schema.arguments
    given = {one.name: one.default_value for one in parameters}
    given.update(zip((one.name for one in parameters), node.args, strict=False))
    return {**given, **node.kwargs}


def _name(node: Any) -> str:
    """Schema name of the op that a node calls."""
    schema = getattr(node.target, "_schema", None) if isinstance(node, Node) else None
    return schema.name if schema is not None else ""
