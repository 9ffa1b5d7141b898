"""Experts of a language model: rows are multiplied by the matrices that were chosen for them.

What transformers exports takes the chosen matrices out of all, which writes them to memory, and
multiplies these copies. Where that is one op, the matrices are read where they lie.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.lowering.decompositions.chosen_products  # noqa: F401  it defines the op
from aoti_plugins.lowering.added_nodes import call, call_instead, comes_from
from aoti_plugins.lowering.small_weights.sources import CASTS, name_of

_aten = torch.ops.aten

_Chosen = tuple[Node, Node, Node]
"""Rows ``[n, k]``, numbers ``[n]`` and matrices ``[count, m, k]``."""


def chosen_matrices(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::chosen_products``, in place; expects ATen ops.

    Two forms of them in the outermost graph: ``bmm`` of ``matrices[numbers]`` and one column or row
    each, as ``batched_mm`` of transformers has it, and the sum over products that the decomposition
    of ``aten._grouped_mm`` makes of few rows.
    """
    for node in list(program.graph.nodes):
        found = _of_batches(node) or _of_sums(node)
        if found is not None:
            sources = (node.args[0], node)
            product = call_instead(node, torch.ops.aoti_plugins.chosen_products.default, *found)
            comes_from(product, *sources)
    program.graph.eliminate_dead_code()


def _of_batches(node: Node) -> _Chosen | None:
    """``squeeze(bmm(matrices[numbers], rows[:, :, None]), -1)``, or with rows in front."""
    product = node.args[0] if node.target is _aten.squeeze.dim else None
    if not _calls(product, _aten.bmm.default) or node.meta["val"].dim() != 2:
        return None
    left, right = product.args
    if _is_unsqueezed(right, (2, -1)) and node.args[1] in (2, -1):
        return _chosen(right.args[0], left, is_transposed=False)
    if _is_unsqueezed(left, (1, -2)) and node.args[1] in (1, -2):
        return _chosen(left.args[0], right, is_transposed=True)
    return None


def _of_sums(node: Node) -> _Chosen | None:
    """``sum(rows[:, :, None].float() * matrices.mT[numbers].float(), 1)`` in the rows' dtype."""
    total = _uncast(node)
    if total is node or not _calls(total, _aten.sum.dim_IntList) or total.args[1:] != ([1],):
        return None
    product = total.args[0]
    if not _calls(product, _aten.mul.Tensor) or product.meta["val"].dim() != 3:
        return None
    rows, taken = map(_uncast, product.args)
    if not _is_unsqueezed(rows, (2, -1)) or node.meta["val"].dtype != rows.meta["val"].dtype:
        return None
    return _chosen(rows.args[0], taken, is_transposed=True)


def _chosen(rows: Node, taken: Any, is_transposed: bool) -> _Chosen | None:
    """What is chosen, if a node takes matrices by their numbers and nothing else reads them."""
    if not _calls(taken, _aten.index.Tensor) or len(taken.users) > 1:
        return None
    table, (numbers, *others) = taken.args
    value, number = table.meta["val"], None if numbers is None else numbers.meta["val"]
    if number is None or any(one is not None for one in others):
        return None
    if value.dim() != 3 or number.dim() != 1 or number.dtype not in (torch.int32, torch.int64):
        return None
    if value.dtype != rows.meta["val"].dtype or not value.is_floating_point():
        return None
    return rows, numbers, _transposed(table, taken) if is_transposed else table


def _transposed(table: Node, before: Node) -> Node:
    if _calls(table, _aten.transpose.int) and {dim % 3 for dim in table.args[1:]} == {1, 2}:
        return table.args[0]
    return call(before, _aten.transpose.int, table, -2, -1)


def _is_unsqueezed(node: Any, dims: tuple[int, ...]) -> bool:
    """Whether a matrix got a dim more."""
    return (
        _calls(node, _aten.unsqueeze.default)
        and node.args[1] in dims
        and node.args[0].meta["val"].dim() == 2
    )


def _uncast(node: Any) -> Any:
    """What a change of the dtype was made of; else the node."""
    return node.args[0] if name_of(node) in CASTS else node


def _calls(node: Any, op: Any) -> TypeGuard[Node]:
    is_call = isinstance(node, Node) and node.target is op
    return is_call and isinstance(node.meta.get("val"), Tensor)
