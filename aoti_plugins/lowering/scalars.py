"""The numbers of a model, as graph passes find them."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.program_constants import constant_of

Number: TypeAlias = bool | int | float | complex

_CASTS = ("aten::_to_copy", "dim_order_ops::_to_dim_order_copy", "aten::lift_fresh_copy")


def scalar_value(program: ExportedProgram, argument: object) -> Number | None:
    """Find the number that an argument of a node stands for.

    In the edge dialect the number in ``x * 2.0`` is a tensor without dimensions, which the program
    holds as a buffer; one of another dtype is cast by a node of its own.

    Args:
        program: the partition that a graph pass was given.
        argument: one of ``node.args``: a number, or a node.

    Returns:
        The number, in the precision of its tensor; ``None`` for what is only known when the
        program runs, such as a buffer that some method writes to.

    Example:
        A pass that looks for ``x * 2``::

            if node.target == torch.ops.aten.mul.Tensor:
                doubled = scalar_value(program, node.args[1]) == 2
    """
    if isinstance(argument, bool | int | float | complex):
        return argument
    tensor = _constant(program, argument) if isinstance(argument, Node) else None
    if tensor is None or tensor.dim() != 0:
        return None
    value: Number = tensor.item()
    return value


def _constant(program: ExportedProgram, node: Node) -> torch.Tensor | None:
    if node.op == "placeholder":
        return constant_of(program, node)
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.name not in _CASTS or not isinstance(node.args[0], Node):
        return None
    source = _constant(program, node.args[0])
    return None if source is None else source.to(node.meta["val"].dtype)
