"""Products with weights of GGUF's ``q6_k`` become one op, the weights are laid out for it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.q6_k_linear  # noqa: F401  it defines the ops
from aoti_plugins.cuda.small_weights.planes import pack
from aoti_plugins.lowering.added_nodes import call, call_instead
from aoti_plugins.lowering.program_constants import add_constant, constant_of
from aoti_plugins.lowering.small_weights.gguf import six_bits
from aoti_plugins.lowering.small_weights.products import product_of_blocks
from aoti_plugins.lowering.small_weights.rows import rows_of
from aoti_plugins.lowering.small_weights.sources import gguf_blocks_of

_ops = torch.ops.aoti_plugins
_KIND = "q6_k"
_PARTS = ("low", "high", "scale", "step")
_Planes = tuple[Node, Node, Node, Node]
_NBYTES_AT_ONCE = 2**23


def q6_k_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::q6_k_linear``, in place; expects ATen ops.

    Those of bfloat16 with a constant, in the outermost graph. An embedding that reads the same
    blocks then takes its rows out of what the product reads.
    """
    planes: dict[Node, _Planes] = {}
    for node in list(program.graph.nodes):
        found = product_of_blocks(node)
        if found is None:
            continue
        (x, _, bias), (blocks, kind) = found
        is_bfloat16 = x.meta["val"].dtype == node.meta["val"].dtype == torch.bfloat16
        rows = constant_of(program, blocks)
        if kind != _KIND or not is_bfloat16 or rows is None:
            continue
        if blocks not in planes:
            planes[blocks] = _planes(program, blocks.name, rows)
        if bias is None:
            call_instead(node, _ops.q6_k_linear.default, x, *planes[blocks])
        else:
            product = call(node, _ops.q6_k_linear.default, x, *planes[blocks])
            call_instead(node, torch.ops.aten.add.Tensor, product, bias)
    for node in list(program.graph.nodes) if planes else ():
        _take_rows(node, planes)
    program.graph.eliminate_dead_code()


def _planes(program: ExportedProgram, name: str, rows: Tensor) -> _Planes:
    """The constants of rows of blocks that a placeholder held, which a program gets."""
    parts = []
    for some in rows.split(max(1, _NBYTES_AT_ONCE // rows.size(1))):
        codes, scale, step = six_bits(some)
        parts.append((*pack(codes), scale.to(torch.int8), step.to(torch.float16)))
    low, high, scale, step = (
        add_constant(program, f"{name}_of_6_bits_{part}", torch.cat(list(all_rows)))
        for part, all_rows in zip(_PARTS, zip(*parts, strict=True), strict=True)
    )
    return low, high, scale, step


def _take_rows(node: Node, planes: dict[Node, _Planes]) -> None:
    """Let an embedding read planes, if that is what a node is and its blocks have become some."""
    found = gguf_blocks_of(node)
    rows = None if found is None else rows_of(found.blocks)
    if rows is None or rows.table not in planes:
        return
    args = (rows.numbers, *planes[rows.table], node.meta["val"].dtype, rows.may_be_negative)
    call_instead(node, _ops.rows_of_q6_k.default, *args)
