"""Products with weights of 4 and 8 bits become ``small_linear``, which reads them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.lowering.small_weights.small_linear  # noqa: F401 -- registers the op
from aoti_plugins.lowering.small_weights.constants import packed_constants
from aoti_plugins.lowering.small_weights.packed import is_packable
from aoti_plugins.lowering.small_weights.products import Product, product_of
from aoti_plugins.lowering.small_weights.sources import (
    arguments_of,
    name_of,
)
from aoti_plugins.lowering.small_weights.weight import NO_ZERO, SmallWeight

_aten = torch.ops.aten
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_VIEWS = ("aten::t", "aten::t_copy", "aten::permute", "aten::permute_copy")
_GROUP_UNIT = 32
"""A group's size is a multiple of it; must match native/src/ops/small_linear.cpp."""


class _Rows(NamedTuple):
    """What is multiplied: floats, or codes of 8 bits with a scale and a zero for each row."""

    x: Node
    scale: Node | None = None
    zero: Node | None = None


def replace_products(
    program: ExportedProgram,
    takes_numbers: bool,
    fits: Callable[[Product], bool] = lambda product: True,
) -> None:
    """Replace products by ``aoti_plugins::small_linear``, in place; expects ATen ops.

    Those whose weight is a constant of 4 or 8 bits, in the outermost graph.

    Args:
        program: whose products.
        takes_numbers: where rows were made 8-bit numbers before, these are multiplied.
        fits: which products the device's kernels compute.
    """
    for node in list(program.graph.nodes):
        found = _product(program, node)
        if found is not None and fits(found):
            rows = _rows(found[0], found[1]) if takes_numbers else _Rows(found[0])
            _replace(program, node, rows, *found)
    program.graph.eliminate_dead_code()


def _product(program: ExportedProgram, node: Node) -> Product | None:
    """The product that a node computes, if the kernels do it."""
    found = product_of(program, node)
    if found is None:
        return None
    x, weight, _ = found
    if not is_packable(weight) or weight.group_size % _GROUP_UNIT or not _is_as_small(node):
        return None
    dtype = x.meta["val"].dtype
    return found if dtype in _DTYPES and node.meta["val"].dtype == dtype else None


def _is_as_small(product: Node) -> bool:
    """Whether the weight takes as few bytes in the form of the op as in the one it has.

    Of one of which rows are taken, too, both have the form of the op only if it is
    ``dequantize_affine``. Scales of GGUF files are two numbers' products, and would be float32.
    """
    source = product.args[2 if product.target is _aten.addmm.default else 1]
    while name_of(source) in _VIEWS:
        source = source.args[0]
    name = name_of(source)
    is_int4 = name == "torchao::dequantize_int4_tensor"
    return name != "torchao::dequantize_gguf" and (not is_int4 or len(source.args[0].users) == 1)


def _rows(x: Node, weight: SmallWeight) -> _Rows:
    """The 8-bit numbers that x was made from, one scale for each row, if that is what it is."""
    if name_of(x) != "torchao::dequantize_affine" or weight.zero_kind != NO_ZERO:
        return _Rows(x)
    given = arguments_of(x)
    codes, block = given["input"], list(given["block_size"])
    if codes.meta["val"].dtype != torch.int8 or block[:-1] != [1] * (len(block) - 1):
        return _Rows(x)
    zero = given["zero_point"]
    if block[-1] != codes.meta["val"].size(-1):
        return _Rows(x)
    if zero is not None and zero.meta["val"].is_floating_point():
        return _Rows(x)
    return _Rows(codes, given["scale"], zero)


def _replace(
    program: ExportedProgram,
    node: Node,
    rows: _Rows,
    x: Node,
    weight: SmallWeight,
    bias: Node | None,
) -> None:
    graph, dtype = node.graph, x.meta["val"].dtype
    codes, scale, zero = packed_constants(program, weight)
    with graph.inserting_before(node):
        row_scale = None if rows.scale is None else _converted(rows.scale, torch.float32)
        row_zero = None if rows.zero is None else _converted(rows.zero, torch.int8)
        constants = (codes, scale, zero, bias, weight.bits, weight.zero_kind)
        product = graph.call_function(
            torch.ops.aoti_plugins.small_linear.default, (rows.x, row_scale, row_zero, *constants)
        )
        product.meta.update(node.meta)
        if rows.scale is not None:
            product.meta["val"] = node.meta["val"].to(torch.float32)
            product = _converted(product, dtype)
    node.replace_all_uses_with(product)
    graph.erase_node(node)


def _converted(node: Node, dtype: torch.dtype) -> Node:
    """A node as it is, or as another dtype behind it."""
    value = node.meta["val"]
    if value.dtype == dtype:
        return node
    found = node.graph.call_function(_aten._to_copy.default, (node,), {"dtype": dtype})
    found.meta.update(node.meta)
    found.meta["val"] = value.to(dtype)
    return found
