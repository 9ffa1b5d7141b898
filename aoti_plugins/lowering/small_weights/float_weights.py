"""Weights of floats of 8 and 4 bits, as kernels read them.

``torchao::dequantize_mx`` and ``dequantize_nvfp4`` make weights of such; torchao's
``Float8WeightOnlyConfig`` has a cast and a product with scales in their place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.program_constants import add_constant, constant_of
from aoti_plugins.lowering.small_weights import floats
from aoti_plugins.lowering.small_weights.fields import fields, halves_of_bytes
from aoti_plugins.lowering.small_weights.packed import pack
from aoti_plugins.lowering.small_weights.products import Factors, factors_of
from aoti_plugins.lowering.small_weights.sources import CASTS, is_transpose, name_of

PIECE = 32
"""Rows have a multiple of so many; must match native/src/cpu/math/narrow_weights.h."""

_MX_GROUP, _NVFP4_GROUP = 32, 16
_ROWS = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_ELEMENTS = {"e4m3": floats.float8_e4m3fn, "e5m2": floats.float8_e5m2}
_PRODUCTS = ("aten::matmul", "aten::mm")


class FloatWeight(NamedTuple):
    """A weight ``[n, k]`` of floats, as constants of a program.

    Attributes:
        codes: uint8 ``[n, k]``; of ``nvfp4`` ``[n, k / 2]``, from ``packed.pack`` by 32.
        scale: float32 ``[n, 1]``; of ``mx`` the exponents of float32, uint8 ``[n, k / 32]``; of
            ``nvfp4`` the bits of float8_e4m3fn, uint8 ``[n, k / 16]``.
        whole: what all are multiplied by.
        kind: ``"e4m3"``, ``"e5m2"``, ``"mx_e4m3"``, ``"mx_e5m2"`` or ``"nvfp4"``.
    """

    codes: Node
    scale: Node
    whole: float
    kind: str


def values(codes: Tensor, scale: Tensor, whole: float, kind: str) -> Tensor:
    """What a weight stands for, float32 ``[n, k]``; arguments as ``FloatWeight`` has them."""
    if kind == "nvfp4":
        numbers = floats.float4_e2m1(halves_of_bytes(codes.unflatten(-1, (-1, PIECE // 2))))
        scales = floats.float8_e4m3fn(scale.int())
    else:
        numbers = _ELEMENTS[kind.removeprefix("mx_")](codes.int())
        scales = floats.float8_e8m0fnu(scale.int()) if kind.startswith("mx_") else scale
    rows = numbers.reshape(*scale.shape, -1) * scales[..., None]
    return rows.flatten(-2) * whole


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What kernels compute, by PyTorch in float32: ``[..., n]`` of x ``[..., k]``, in its dtype."""
    found = torch.nn.functional.linear(x.float(), weight, None if bias is None else bias.float())
    return found.to(x.dtype)


def product_of_floats(program: ExportedProgram, node: Node) -> tuple[Factors, FloatWeight] | None:
    """The product that a node computes, if its weight is made from constants that are floats.

    One whose result has the dtype of x. Constants are added to the program only if it is.
    """
    found, read = factors_of(node), None
    if found is not None:
        read = _READERS.get(name_of(found.weight))
    elif name_of(node) in _PRODUCTS:
        x, factor = node.args
        found, read = Factors(x, factor, None), _of_float8
    if found is None or read is None or found.x.meta["val"].dtype != node.meta["val"].dtype:
        return None
    weight = read(program, found.weight)
    return None if weight is None else (found, weight)


def float8_of_transpose(program: ExportedProgram, node: Node) -> tuple[Node, Node] | None:
    """Codes ``[n, k]`` and scales ``[n, 1]`` or ``[1, 1]`` of a weight ``[k, n]``.

    As torchao's ``Float8WeightOnlyConfig`` has them; codes are a constant.
    """
    scaled: Any = node.args[0] if name_of(node) in CASTS else node
    if name_of(scaled) != "aten::mul":
        return None
    wide, scale = scaled.args
    if name_of(wide) not in CASTS:
        return None
    codes, scale = _untransposed(wide.args[0]), _untransposed(scale)
    if codes is None or scale is None or constant_of(program, codes) is None:
        return None
    value, sizes = codes.meta["val"], scale.meta["val"].shape
    is_float8 = value.is_floating_point() and value.itemsize == 1 and value.dim() == 2
    return (codes, scale) if is_float8 and sizes in ((value.size(0), 1), (1, 1)) else None


def _untransposed(node: Any) -> Node | None:
    return node.args[0] if is_transpose(node) else None


def _of_float8(program: ExportedProgram, node: Node) -> FloatWeight | None:
    found = float8_of_transpose(program, node)
    codes = None if found is None else constant_of(program, found[0])
    scale = None if found is None else constant_of(program, found[1])
    if found is None or codes is None or scale is None or not _fits(codes):
        return None
    kind = _ROWS.get(codes.dtype)
    if kind is None:
        return None
    rows = scale.float().expand(codes.size(0), 1).contiguous()
    return FloatWeight(
        _bits(program, found[0], codes),
        add_constant(program, f"{found[1].name}_of_rows", rows),
        1.0,
        kind,
    )


def _of_mx(program: ExportedProgram, node: Node) -> FloatWeight | None:
    codes, scale = (constant_of(program, one) for one in node.args[:2])
    element: Any = node.args[2]
    kind = _ROWS.get(element)
    if codes is None or scale is None or kind is None or node.args[3] != _MX_GROUP:
        return None
    if codes.itemsize != 1 or not _fits(codes):
        return None
    groups = codes.size(1) // _MX_GROUP
    return FloatWeight(
        _bits(program, node.args[0], codes),
        _scales(program, node.args[1], scale, (codes.size(0), groups)),
        1.0,
        f"mx_{kind}",
    )


def _of_nvfp4(program: ExportedProgram, node: Node) -> FloatWeight | None:
    """Not one of which something else reads the codes: it would be there twice."""
    given: Any = node.args
    words, scale, whole = (constant_of(program, one) for one in given[:3])
    if words is None or scale is None or whole is None or given[3] != _NVFP4_GROUP:
        return None
    if whole.numel() != 1 or len(given[0].users) != 1 or words.dim() != 2:
        return None
    codes = fields(words.view(torch.uint8), 8, 4).to(torch.uint8)
    if not _fits(codes):
        return None
    return FloatWeight(
        add_constant(program, f"{given[0].name}_halves", pack(codes, 4, PIECE)),
        _scales(program, given[1], scale, (codes.size(0), codes.size(1) // _NVFP4_GROUP)),
        float(whole),
        "nvfp4",
    )


_READERS = {"torchao::dequantize_mx": _of_mx, "torchao::dequantize_nvfp4": _of_nvfp4}


def _fits(codes: Tensor) -> bool:
    return codes.dim() == 2 and codes.size(1) > 0 and codes.size(1) % PIECE == 0


def _bits(program: ExportedProgram, node: Any, value: Tensor) -> Node:
    """A constant of bytes as uint8."""
    if value.dtype == torch.uint8:
        return node
    return add_constant(program, f"{node.name}_bits", value.view(torch.uint8))


def _scales(program: ExportedProgram, node: Any, value: Tensor, shape: tuple[int, int]) -> Node:
    """Scales of a byte each in rows."""
    if value.shape == shape:
        return _bits(program, node, value)
    return add_constant(program, f"{node.name}_rows", value.view(torch.uint8).reshape(shape))
