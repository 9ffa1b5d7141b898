"""Embeddings of few bits: rows are taken first, and only these become floats."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.added_nodes import call, put_in_place
from aoti_plugins.lowering.small_weights.constants import packed_constants
from aoti_plugins.lowering.small_weights.packed import is_packable
from aoti_plugins.lowering.small_weights.rows import Rows, rows_of
from aoti_plugins.lowering.small_weights.sources import affine_weight_of, name_of

_ROW_DIMS: dict[str, tuple[int | None, ...]] = {
    "torchao::dequantize_int4_tensor": (0, 1, 1),
    "torchao::dequantize_gguf": (0,),
    "torchao::dequantize_nvfp4": (0, 0, None),
    "torchao::dequantize_mx": (0, 0),
}
"""Along which dim the first arguments of an op have the rows of its result, if they have them."""


def gathered_rows(program: ExportedProgram) -> None:
    """Take rows of what a weight is computed from, in place; expects ATen ops.

    Of weights that ``torchao::dequantize_*`` computes, in the outermost graph. What else reads such
    a weight still does: a head that is the embedding, and the embedding, then read the same bits.
    """
    for node in list(program.graph.nodes):
        rows = rows_of(node)
        found = None if rows is None else _affine(program, rows) or _by_arguments(rows)
        if found is not None:
            put_in_place(found, node)
    program.graph.eliminate_dead_code()


def _affine(program: ExportedProgram, rows: Rows) -> Node | None:
    """Rows of ``torchao::dequantize_affine``, which takes whole tensors."""
    weight = affine_weight_of(program, rows.table)
    if weight is None or not is_packable(weight):
        return None
    codes, scale, zero = packed_constants(program, weight)
    taken = (rows.of(codes), rows.of(scale), None if zero is None else rows.of(zero))
    kinds = (weight.bits, weight.zero_kind, rows.node.meta["val"].dtype)
    return call(rows.node, torch.ops.aoti_plugins.packed_weight.default, *taken, *kinds)


def _by_arguments(rows: Rows) -> Node | None:
    """Rows of an op that takes rows of its arguments, in the same way."""
    dims = _ROW_DIMS.get(name_of(rows.table))
    if dims is None or len(rows.table.args) < len(dims):
        return None
    table, before = rows.table, rows.node
    given, others = table.args[: len(dims)], table.args[len(dims) :]
    if not all(_has_rows(rows, one, dim) for one, dim in zip(given, dims, strict=True)):
        return None
    taken = [
        one if dim is None else rows.of(one, dim) for one, dim in zip(given, dims, strict=True)
    ]
    with before.graph.inserting_before(before):
        return before.graph.call_function(table.target, (*taken, *others), table.kwargs)


def _has_rows(rows: Rows, argument: Any, dim: int | None) -> bool:
    """Whether an argument has the rows of the table along a dim, or has none at all."""
    value = argument.meta["val"]
    count = rows.table.meta["val"].size(0)
    return dim is None or (value.dim() == 2 and value.size(dim) == count)
