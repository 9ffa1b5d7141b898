"""Products with weights of floats of 8 and 4 bits become one op, of any number of rows.

The op and its tiles are those of integers of as many bits: ``small_weights``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.fused_linear  # noqa: F401  it defines the op
from aoti_plugins.cuda.gates import Gate
from aoti_plugins.cuda.passes.around_linears import either
from aoti_plugins.cuda.passes.small_weights import prefix_of
from aoti_plugins.cuda.small_weights.layout import (
    FLOAT,
    FLOAT_E5M2,
    FLOAT_GROUPS,
    ROWS,
    pack_codes,
    pack_groups,
)
from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.program_constants import add_constant, constant_of
from aoti_plugins.lowering.small_weights.fields import halves_of_bytes
from aoti_plugins.lowering.small_weights.float_weights import (
    PIECE,
    FloatWeight,
    product_of_floats,
)

_EXPONENTS = {"mx_e4m3": range(47, 171), "mx_e5m2": range(55, 179)}
"""Of scales, as float32 has them: with others, weights on their way are no bfloat16."""


def float_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::fused_linear``, in place; expects ATen ops.

    Those in the outermost graph whose weight is constant and in no other use, with all of its
    elements numbers, and whose other factor is bfloat16.
    """
    for node in list(program.graph.nodes):
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or value.dtype != torch.bfloat16:
            continue
        found = product_of_floats(program, node)
        if found is None or _is_shared(node, (found[0].x, found[0].bias)):
            continue
        weight = _constants(program, found[1])
        if weight is None:
            continue
        (x, _, bias), (codes, scale, factors, *kinds) = found[0], weight
        whole = node
        if bias is None:
            whole, bias = _with_bias(node)
        op = torch.ops.aoti_plugins.fused_linear.default
        args = (x, codes, scale, factors, bias, None, None, *kinds, 0.0, int(Gate.NONE))
        call_instead(whole, op, *args)
    program.graph.eliminate_dead_code()


def _with_bias(product: Node) -> tuple[Node, Node | None]:
    """A sum with a product that nothing else reads, and the bias; the product where there is none.

    torchao's float8 adds a bias behind a product.
    """
    value = product.meta["val"]
    for total in product.users if len(product.users) == 1 else ():
        for one, other in either(total, torch.ops.aten.add.Tensor):
            added = other.meta["val"]
            if one is product and added.shape == value.shape[-1:] and added.dtype == value.dtype:
                return total, other
    return product, None


def _is_shared(product: Node, others: tuple[Node | None, ...]) -> bool:
    """Whether something else reads what a product's weight is made of: it would be there twice."""
    of_weight = [node for node in product.all_input_nodes if node not in others]
    while of_weight:
        node = of_weight.pop()
        if len(node.users) > 1:
            return True
        of_weight += node.all_input_nodes
    return False


_Constants = tuple[Node, Node, Node | None, int, int, int]
"""Codes, scales, factors of rows; bits, size of groups, and what codes are."""


def _constants(program: ExportedProgram, weight: FloatWeight) -> _Constants | None:
    """A weight in tiles, which a program gets, if the kernels take it."""
    codes, scale = (constant_of(program, node) for node in weight[:2])
    if codes is None or scale is None:
        return None
    kind, n = weight.kind, codes.size(0)
    bits = 4 if kind == "nvfp4" else 8
    if bits == 4:
        codes = halves_of_bytes(codes.unflatten(-1, (-1, PIECE // 2))).flatten(1).to(torch.uint8)
    k = codes.size(1)
    group = k // scale.size(1)
    if (
        n % ROWS
        or (group == k) != (kind in ("e4m3", "e5m2"))
        or not _are_numbers(codes, scale, kind)
    ):
        return None
    name = prefix_of(weight.codes.name, bits)
    factors = None
    if weight.whole != 1.0:
        whole = torch.full((n, 1), weight.whole)
        factors = add_constant(program, f"{name}_factors", pack_groups(whole))
    tiles = add_constant(
        program,
        f"{name}_codes",
        pack_codes(codes.view(torch.int8 if bits == 8 else torch.uint8), bits),
    )
    scales = add_constant(program, f"{name}_scale", pack_groups(scale))
    what = FLOAT_E5M2 if kind.endswith("e5m2") else FLOAT
    return tiles, scales, factors, bits, group, what


def _are_numbers(codes: Tensor, scale: Tensor, kind: str) -> bool:
    """Whether kernels make of codes and scales, as in ``FloatWeight``, what they stand for."""
    if kind == "nvfp4":
        return bool(((scale & 0x7F) != 0x7F).all())
    first = 0x7C if kind.endswith("e5m2") else 0x7F  # that is none
    magnitudes = codes & 0x7F
    if bool((magnitudes >= first).any()):
        return False
    if kind not in _EXPONENTS:
        return bool(scale.isfinite().all())
    counts = (magnitudes != 0).unflatten(-1, (-1, FLOAT_GROUPS[8])).any(-1)
    exponents = scale[counts]
    allowed = _EXPONENTS[kind]
    return bool(((exponents >= allowed.start) & (exponents < allowed.stop)).all())
