"""Products with codes that are scaled behind them become products with scaled weights.

So torchao's ``Int8WeightOnlyConfig`` has it: codes of 8 bits become floats, and their product is
multiplied with a scale for each column. Kernels for small weights do both at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.lowering.small_weights.packed  # noqa: F401 -- registers an op
from aoti_plugins.lowering.added_nodes import call, call_instead
from aoti_plugins.lowering.program_constants import add_constant, constant_of
from aoti_plugins.lowering.small_weights.sources import CASTS, is_transpose, name_of
from aoti_plugins.lowering.small_weights.weight import NO_ZERO

_aten = torch.ops.aten
_RESHAPES = ("aten::view", "aten::view_copy", "aten::reshape")
_VIEWS = (*_RESHAPES, "aten::unsqueeze", "aten::squeeze")


def scaled_products(program: ExportedProgram) -> None:
    """Rewrite them as ``aten::linear``, in place, in the outermost graph; expects ATen ops.

    With the scale, the bias and the views of the rows that stand around them, each if nothing else
    reads what lies between. Expects constants, int8 codes ``[n, k]``.
    """
    for node in list(program.graph.nodes):
        codes = _codes(program, node)
        if codes is not None:
            _rewrite(program, node, codes)
    program.graph.eliminate_dead_code()


def _codes(program: ExportedProgram, node: Node) -> Node | None:
    """The placeholder of the codes that a node multiplies, if it is such a product."""
    if node.target is not _aten.mm.default or name_of(node.args[1]) not in CASTS:
        return None
    factor: Any = node.args[1]
    transposed = factor.args[0]
    if not is_transpose(transposed):
        return None
    codes = constant_of(program, transposed.args[0])
    is_matrix = codes is not None and codes.dtype == torch.int8 and codes.dim() == 2
    is_wide = node.meta["val"].dtype.is_floating_point
    return transposed.args[0] if is_matrix and is_wide else None


def _rewrite(program: ExportedProgram, product: Node, codes: Node) -> None:
    n, dtype = codes.meta["val"].size(0), product.meta["val"].dtype
    x: Any = product.args[0]
    last, scale, name = product, torch.ones(n), f"{codes.name}_alone"
    found = _by_columns(last, _aten.mul.Tensor)
    numbers = None if found is None else _constant(program, found[1])
    if found is not None and numbers is not None:
        last, scale = found[0], numbers.values
        name = f"{codes.name}_times_{numbers.source.name}"
    view = _only_user(last)
    if view is not None and _restores_rows(x, view):
        x, last = x.args[0], view
    bias = None
    found = _by_columns(last, _aten.add.Tensor)
    if found is not None and found[1].meta["val"].dim() == 1:
        last, bias = found
    scales = add_constant(program, f"{name}_{str(scale.dtype)[6:]}", scale.reshape(n, 1))
    args = (codes, scales, None, 8, NO_ZERO, dtype)
    weight = call(last, torch.ops.aoti_plugins.packed_weight.default, *args)
    call_instead(last, _aten.linear.default, x, weight, bias)


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _by_columns(node: Node, op: Any) -> tuple[Node, Node] | None:
    """The op that nothing but a node goes into, and a number for each of its columns."""
    user = _only_user(node)
    if user is None or user.target is not op or user.kwargs or len(user.args) != 2:
        return None
    value = node.meta["val"]
    other = user.args[1 if user.args[0] is node else 0]
    if not isinstance(other, Node) or user.meta["val"].shape != value.shape:
        return None
    sizes = other.meta["val"].shape
    is_row = len(sizes) > 0 and sizes[-1] == value.size(-1) and all(one == 1 for one in sizes[:-1])
    is_same = other.meta["val"].dtype == user.meta["val"].dtype == value.dtype
    return (user, other) if is_row and is_same else None


class _Constant(NamedTuple):
    """The values of a constant in one dim, and its placeholder."""

    values: Tensor
    source: Node


def _constant(program: ExportedProgram, node: Any) -> _Constant | None:
    """What a node is, if that is a constant, seen in other sizes and dtypes."""
    if name_of(node) in (*_VIEWS, *CASTS):
        found = _constant(program, node.args[0])
        dtype = node.meta["val"].dtype
        return None if found is None else _Constant(found.values.to(dtype), found.source)
    value = constant_of(program, node)
    return None if value is None else _Constant(value.flatten(), node)


def _restores_rows(rows: Any, view: Node) -> bool:
    """Whether rows are a view of more dims, and a node gives the product these dims back."""
    if name_of(rows) not in _RESHAPES or name_of(view) not in _RESHAPES:
        return False
    before = rows.args[0].meta["val"].shape
    after = view.meta["val"].shape
    is_of_rows = before[-1] == rows.meta["val"].size(-1)
    return is_of_rows and len(before) == len(after) and before[:-1] == after[:-1]
