"""An embedding and a head that were quantised apart, to the same bits, become one weight again."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.program_constants import constant_of
from aoti_plugins.lowering.small_weights.rows import rows_of
from aoti_plugins.lowering.small_weights.sources import is_dequantised


def equal_weights(program: ExportedProgram) -> None:
    """Let what reads a weight of few bits read the first that is equal, in place; expects ATen ops.

    Of weights of which rows are taken, in the outermost graph: a tied embedding, of which torchao
    makes two tensors where it is asked to quantise embeddings as well as linear layers.
    """
    tables = dict.fromkeys(
        rows.table
        for rows in map(rows_of, program.graph.nodes)
        if rows is not None and is_dequantised(rows.table)
    )
    for table in tables:
        equal = [one for one in program.graph.nodes if _are_equal(program, one, table)]
        for one in equal[1:]:
            one.replace_all_uses_with(equal[0])
    program.graph.eliminate_dead_code()


def _are_equal(program: ExportedProgram, one: Node, other: Node) -> bool:
    """Whether two nodes compute the same from constants."""
    if one is other:
        return True
    if one.target is not other.target or one.kwargs != other.kwargs:
        return False
    if len(one.args) != len(other.args):
        return False
    pairs = zip(one.args, other.args, strict=True)
    return all(_are_equal_arguments(program, first, second) for first, second in pairs)


def _are_equal_arguments(program: ExportedProgram, one: Any, other: Any) -> bool:
    if not isinstance(one, Node) or not isinstance(other, Node):
        return bool(one == other)
    first, second = constant_of(program, one), constant_of(program, other)
    if first is None or second is None:
        return False
    return first is second or (first.dtype == second.dtype and torch.equal(first, second))
