"""A batch norm of what a convolution returns becomes part of the convolution's weights."""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cpu.passes.convolutions import bias_of, is_convolution
from aoti_plugins.lowering.program_constants import add_constant, constant_of

_aten = torch.ops.aten
# What rounding to 16 bits in between leaves, folding would take away: results would be others.
_DTYPES = (torch.float32, torch.float64)


class _Norm(NamedTuple):
    """``(x - mean) / sqrt(var + epsilon) * weight + bias``; each of ``[channels]``, or None."""

    node: Node
    x: Node
    weight: Node | None
    bias: Node | None
    mean: Node
    var: Node
    epsilon: float


def folded_norms(program: ExportedProgram) -> None:
    """Fold in place, in the outermost graph; expects ATen ops.

    Only where all of both are constants, nothing else reads the convolution's result, and that has
    a batch: else the norm is not over its channels.
    """
    for node in list(program.graph.nodes):
        norm = _norm_of(node)
        if norm is not None and _is_batch_of_one_reader(norm.x):
            _fold(program, norm)
    program.graph.eliminate_dead_code()


def _is_batch_of_one_reader(node: Node) -> bool:
    if not is_convolution(node) or len(node.users) != 1:
        return False
    weight = node.args[1]
    assert isinstance(weight, Node)
    return bool(node.meta["val"].dim() == weight.meta["val"].dim())


def _norm_of(node: Node) -> _Norm | None:
    if node.target is _aten._native_batch_norm_legit_no_training.default:
        x, weight, bias, mean, var, _, epsilon = node.args
        if any(user.target is not operator.getitem or user.args[1] != 0 for user in node.users):
            return None
        return _Norm(node, x, weight, bias, mean, var, epsilon)
    if node.target is _aten.batch_norm.default and node.args[5] is False:
        x, weight, bias, mean, var, _, _, epsilon = node.args[:8]
        return _Norm(node, x, weight, bias, mean, var, epsilon)
    return None


@torch.no_grad()
def _fold(program: ExportedProgram, norm: _Norm) -> None:
    weight, old_bias = constant_of(program, norm.x.args[1]), bias_of(norm.x)
    bias = constant_of(program, old_bias)
    mean, var = constant_of(program, norm.mean), constant_of(program, norm.var)
    scale, shift = constant_of(program, norm.weight), constant_of(program, norm.bias)
    optional = ((old_bias, bias), (norm.weight, scale), (norm.bias, shift))
    if weight is None or mean is None or var is None or weight.dtype not in _DTYPES:
        return
    if any(node is not None and value is None for node, value in optional):
        return
    factor = (var.double() + norm.epsilon).rsqrt()
    if scale is not None:
        factor = factor * scale.double()
    offset = -mean.double() if bias is None else bias.double() - mean.double()
    offset = offset * factor if shift is None else offset * factor + shift.double()
    shape = (-1,) + (1,) * (weight.dim() - 1)
    folded = (weight.double() * factor.view(shape)).to(weight.dtype)
    name = f"{norm.x.name}_{norm.node.name}"
    norm.x.args = (
        norm.x.args[0],
        add_constant(program, f"{name}_weight", folded),
        add_constant(program, f"{name}_bias", offset.to(weight.dtype)),
        *norm.x.args[3:],
    )
    results = (
        list(norm.node.users) if isinstance(norm.node.meta["val"], tuple | list) else [norm.node]
    )
    for result in results:
        result.replace_all_uses_with(norm.x)
