"""Weights of dtypes that devices and payloads do not have become integers of the same bits."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.program_constants import add_constant, constant_of

_OPS = ("torchao::dequantize_mx", "torchao::dequantize_nvfp4")
_PREFIXES = ("p_", "b_", "c_")
_INTEGERS = {
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e8m0fnu: torch.uint8,
    torch.uint32: torch.int32,
}


def is_replaced(node: Node) -> bool:
    """Whether a node computes a weight from constants of a program whose bits are enough."""
    schema = getattr(aten_op(node.target), "_schema", None)
    return (
        schema is not None
        and schema.name in _OPS
        and all(one.op == "placeholder" and _is_constant(one) for one in node.all_input_nodes)
    )


def constants_as_bits(program: ExportedProgram) -> None:
    """Give ``torchao::dequantize_mx`` and ``dequantize_nvfp4`` integers, in place.

    Their decompositions read bits, so that Metal, which has no such floats, can run them, too.
    """
    for node in program.graph.nodes:
        if is_replaced(node):
            node.args = tuple(_as_bits(program, one) for one in node.args)
    program.graph.eliminate_dead_code()


def _as_bits(program: ExportedProgram, argument: Any) -> Any:
    value = constant_of(program, argument)
    if value is None or value.dtype not in _INTEGERS:
        return argument
    bits = value.view(_INTEGERS[value.dtype])
    return add_constant(program, f"{argument.name}_bits", bits)


def _is_constant(node: Node) -> bool:
    """As the export names parameters, buffers and constants."""
    return node.name.startswith(_PREFIXES)
