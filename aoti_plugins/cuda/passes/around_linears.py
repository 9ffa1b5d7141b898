"""What stands around products in language models, as ATen ops: norms, gates, residuals."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.gates import Gate
from aoti_plugins.lowering.added_nodes import comes_from
from aoti_plugins.lowering.program_constants import add_constant, constant_of

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
_CASTS = (
    _aten._to_copy.default,
    _aten.type_as.default,
    torch.ops.dim_order_ops._to_dim_order_copy.default,
)


@dataclass(frozen=True)
class LinearOfHalves:
    """A product with the transpose of a constant of the same 16-bit dtype, without gaps."""

    x: Node
    weight: Node
    value: torch.Tensor
    """The weight, ``[n, k]``."""
    bias: Node | None


def linear_of_halves(program: ExportedProgram, node: Node) -> LinearOfHalves | None:
    """What a node of ``linear`` multiplies, if it is such a product."""
    if node.target is not _aten.linear.default or node.kwargs:
        return None
    x, weight = node.args[0], node.args[1]
    bias = node.args[2] if len(node.args) > 2 else None
    value = constant_of(program, weight)
    if value is None or not isinstance(x, Node) or not isinstance(weight, Node):
        return None
    if value.dim() != 2 or not value.is_contiguous() or value.dtype not in _HALVES:
        return None
    same = x.meta["val"].dtype == value.dtype == node.meta["val"].dtype
    return LinearOfHalves(x, weight, value, bias) if same else None


@dataclass(frozen=True)
class Norm:
    """A root-mean-square norm: ``x / sqrt(mean(x ** 2) + epsilon) * factors``."""

    x: Node
    factors: Node
    epsilon: float


def norm_of(program: ExportedProgram, node: Node) -> Norm | None:
    """The norm whose result a node is; of bfloat16, computed in float32.

    The factors are a constant and multiply before or after the result became bfloat16 again; or
    one more than a constant, as Gemma has them, which becomes a constant of the result's dtype.
    """
    while node.target is _aten.alias.default and isinstance(node.args[0], Node):
        node = node.args[0]
    if node.meta["val"].dtype != torch.bfloat16:
        return None
    after = [(uncast(one), factors) for one, factors in either(node, _aten.mul.Tensor)]
    before = [
        (one, uncast(other) or other) for one, other in either(uncast(node), _aten.mul.Tensor)
    ]
    for divided, factors in (*after, *before):
        less = _one_less(program, factors)
        if not _is_factors(program, less or factors, node):
            continue
        found = _divided(program, divided)
        if found is None:
            return None
        return Norm(found[0], factors if less is None else _one_more(program, less), found[1])
    return None


def _one_less(program: ExportedProgram, factors: Node) -> Node | None:
    """The node to whose elements 1 is added, in its dtype or another."""
    for one, other in _either_term(factors, _aten.add.Tensor):
        if isinstance(one, Node) and _number(program, other) == 1:
            return uncast(one) or one
    return None


def _one_more(program: ExportedProgram, node: Node) -> Node:
    """A constant and 1, as a constant of the same dtype."""
    value = constant_of(program, node)
    assert value is not None  # its node is one of factors
    return add_constant(program, f"{node.name}_and_one", (value.detach().double() + 1).to(value))


def may_be_one_row(x: Node) -> bool:
    """Whether rows ``[..., k]`` are one, or of a dynamic number."""
    rows = math.prod(x.meta["val"].shape[:-1])  # numel() of a size would fix a dynamic one
    return not isinstance(rows, int) or rows == 1


def norm_of_one_row(program: ExportedProgram, x: Node) -> Norm | None:
    """The norm whose result a node is, if it is one row, or a dynamic number of rows.

    Of rows ``[m, k]`` that are a view of the result, it is the norm of the same view.
    """
    if not may_be_one_row(x):
        return None
    whole = _before_views(x) if x.meta["val"].dim() == 2 else x
    norm = norm_of(program, whole)
    return norm if norm is None or whole is x else replace(norm, x=_as_rows(norm.x, x))


def _before_views(rows: Node) -> Node:
    """What was viewed to become rows, of rows of the same size."""
    while rows.target is _aten.reshape.default:
        if rows.args[0].meta["val"].shape[-1] != rows.meta["val"].shape[-1]:
            break
        rows = rows.args[0]
    return rows


def _as_rows(whole: Node, like: Node) -> Node:
    """A node as a matrix, as another one is, behind its definition; the same one each time."""
    args = (whole, [-1, like.meta["val"].shape[-1]])
    before = whole
    while before.op == before.next.op == "placeholder":
        before = before.next
    behind = before.next
    while behind.target is _aten.reshape.default:
        if behind.args == args:
            return behind
        behind = behind.next
    with whole.graph.inserting_after(before):
        view = whole.graph.call_function(_aten.reshape.default, args)
    view.meta.update(like.meta)
    comes_from(view, like)
    return view


def _is_factors(program: ExportedProgram, node: Node, result: Node) -> bool:
    value = constant_of(program, node)
    return (
        value is not None
        and value.dtype == result.meta["val"].dtype
        and value.shape == result.meta["val"].shape[-1:]
    )


def _divided(program: ExportedProgram, node: Node | None) -> tuple[Node, float] | None:
    """What was divided by the root of its mean square, and what was added to that."""
    for rows, root in either(node, _aten.mul.Tensor):
        x = uncast(rows)
        if x is None or root.target is not _aten.rsqrt.default:
            continue
        if x.meta["val"].dtype != torch.bfloat16 or rows.meta["val"].dtype != torch.float32:
            continue
        for mean, added in _either_term(root.args[0], _aten.add.Tensor):
            epsilon = _number(program, added)
            if epsilon is not None and _is_mean_square(mean, rows):
                return x, epsilon
    return None


def _is_mean_square(node: object, rows: Node) -> bool:
    if not isinstance(node, Node) or node.target is not _aten.mean.dim or len(node.args) != 3:
        return False
    square, dims, keeps = node.args
    last = rows.meta["val"].ndim - 1
    if node.kwargs or not keeps or dims not in ([-1], [last]) or not isinstance(square, Node):
        return False
    if square.target is _aten.pow.Tensor_Scalar:
        return square.args == (rows, 2)
    return square.target is _aten.mul.Tensor and square.args == (rows, rows)


@dataclass(frozen=True)
class Gated:
    """``gate(first) * second``; both halves of one node's columns where ``second`` is none."""

    gate: Gate
    first: Node
    second: Node | None


def gated_of(node: Node) -> Gated | None:
    """The gate whose result a node is, if nothing else reads what it is computed from."""
    for activated, other in either(node, _aten.mul.Tensor):
        gate = _gate(activated)
        if gate is None or activated.meta["val"].shape != other.meta["val"].shape:
            continue
        if activated.meta["val"].dtype != node.meta["val"].dtype:
            continue
        first = activated.args[0]
        if not isinstance(first, Node) or not all(map(_is_read_once, (activated, first, other))):
            continue
        if _half(first) is None and _half(other) is None:
            return Gated(gate, first, other)
        whole = _whole_of(first, other)
        return None if whole is None else Gated(gate, whole, None)
    return None


def _whole_of(first: Node, second: Node) -> Node | None:
    """The node whose halves two nodes are, in order, if nothing else reads it."""
    one, other = _half(first), _half(second)
    if one is None or other is None or one[0] is not other[0] or (one[1], other[1]) != (0, 1):
        return None
    whole = one[0].args[0]
    return whole if isinstance(whole, Node) and _is_read_once(whole) else None


def _gate(node: Node) -> Gate | None:
    if node.target is _aten.silu.default:
        return Gate.SILU
    if node.target is _aten.gelu.default:
        kind = node.kwargs.get("approximate", node.args[1] if len(node.args) > 1 else "none")
        return Gate.GELU_TANH if kind == "tanh" else Gate.GELU
    return None


def _half(node: Node) -> tuple[Node, int] | None:
    """The split into two halves of the last dim of which a node is one, and which."""
    if node.target is not operator.getitem:
        return None
    split, index = node.args
    if not isinstance(split, Node) or not isinstance(index, int):
        return None
    value = node.meta["val"]
    whole = split.args[0].meta["val"] if split.args and isinstance(split.args[0], Node) else None
    if whole is None or whole.shape[-1] != 2 * value.shape[-1]:
        return None
    if split.target not in (_aten.split.Tensor, _aten.split_with_sizes.default):
        return None
    dim = split.args[2] if len(split.args) > 2 else 0
    return (split, index) if dim in (-1, value.ndim - 1) and not split.kwargs else None


def residual_of(node: Node, product: Node) -> Node | None:
    """What a node adds to a product that nothing else reads, if it has the same sizes."""
    if not _is_read_once(product):
        return None
    for one, other in either(node, _aten.add.Tensor):
        value, added = product.meta["val"], other.meta["val"]
        if one is product and other is not product:
            same = value.shape == added.shape and value.dtype == added.dtype
            return other if same and node.meta["val"].dtype == value.dtype else None
    return None


def _is_read_once(node: Node) -> bool:
    return len(node.users) == 1


def uncast(node: object) -> Node | None:
    """What a change of the dtype was made of."""
    if not isinstance(node, Node) or node.target not in _CASTS:
        return None
    source = node.args[0]
    return source if isinstance(source, Node) else None


def either(node: object, op: object) -> list[tuple[Node, Node]]:
    """Both orders of an op's two operands, if they are values and nothing else is said."""
    orders = _either_term(node, op)
    return [both for both in orders if all(isinstance(one, Node) for one in both)]


def _either_term(node: object, op: object) -> list[tuple[Any, Any]]:
    """The same of operands that may be numbers."""
    if not isinstance(node, Node) or node.target is not op or node.kwargs or len(node.args) != 2:
        return []
    one, other = node.args
    return [(one, other), (other, one)]


def _number(program: ExportedProgram, value: object) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    found = constant_of(program, uncast(value) or value)
    return found.item() if found is not None and found.numel() == 1 else None
