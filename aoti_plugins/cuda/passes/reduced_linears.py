"""Products whose results are reduced over ranks become one op with what adds to them."""

from __future__ import annotations

import math

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.linear_all_reduce  # noqa: F401  it defines the op
from aoti_plugins.cuda.inductor.few_rows import has_few_rows
from aoti_plugins.cuda.passes.around_linears import linear_of_halves, residual_of
from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.size_ranges import exported_bounds
from aoti_plugins.parallel import ops  # noqa: F401  they define ``all_reduce``

_ours = torch.ops.aoti_plugins

# Less is on its way for a shorter time than a second product takes to begin.
_LEAST_NBYTES = 4 << 20

# The runtime's kernels read runs of so many elements.
_MULTIPLE = 8


def reduced_linears(program: ExportedProgram, has_row_kernel: bool = True) -> None:
    """Replace ``all_reduce`` of ``linear`` by ``linear_all_reduce``, in place; expects ATen ops.

    Of float16 or bfloat16, with a constant weight and no bias, in the outermost graph, if a
    residual is added to it, or if as many rows as there may be come to some megabytes.

    Args:
        program: is changed.
        has_row_kernel: the runtime multiplies one row as fast as what Inductor generates.
    """
    for node in list(program.graph.nodes):
        product = node.args[0] if node.target is _ours.all_reduce.default else None
        if not isinstance(product, Node) or not _is_product(program, product):
            continue
        total, residual = _with_residual(node)
        pays = residual is not None and not _is_better_generated(product, has_row_kernel)
        if not pays and not _can_be_large(product):
            continue
        x, weight = product.args[:2]
        call_instead(total, _ours.linear_all_reduce.default, x, weight, residual, *node.args[1:])
        if total is not node:
            program.graph.erase_node(node)
        program.graph.erase_node(product)


def _with_residual(node: Node) -> tuple[Node, Node | None]:
    """The sum of a node and a residual, and that; the node and none where there is no such sum."""
    for user in node.users:
        residual = residual_of(user, node)
        if residual is not None:
            return user, residual
    return node, None


def _is_product(program: ExportedProgram, node: Node) -> bool:
    linear = linear_of_halves(program, node)
    if linear is None or linear.bias is not None or len(node.users) != 1:
        return False
    depth = linear.value.size(1)
    return depth > 0 and depth % _MULTIPLE == 0


def _is_better_generated(product: Node, has_row_kernel: bool) -> bool:
    """Whether there are so few rows that a kernel of Inductor's multiplies them."""
    shape = product.args[0].meta["val"].shape
    rows = math.prod(shape[:-1])
    is_row = isinstance(rows, int) and rows == 1
    return not (is_row and has_row_kernel) and has_few_rows(shape)


def _can_be_large(product: Node) -> bool:
    value = product.meta["val"]
    _, rows = exported_bounds(math.prod(value.shape[:-1]))
    return rows is None or rows * value.shape[-1] * value.itemsize >= _LEAST_NBYTES
