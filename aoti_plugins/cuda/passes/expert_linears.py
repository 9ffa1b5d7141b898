"""Products with experts' matrices of 4 and 8 bits become one op, and what stands behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.expert_linear import MOST_EXPERTS, STREAMED_GROUPS
from aoti_plugins.cuda.gates import Gate
from aoti_plugins.cuda.passes.around_linears import (
    Norm,
    either,
    gated_of,
    norm_of_one_row,
    residual_of,
    uncast,
)
from aoti_plugins.cuda.passes.small_weights import SmallWeightConstants, constants_of
from aoti_plugins.cuda.small_weights.layout import ROWS, is_supported
from aoti_plugins.lowering.added_nodes import call, comes_from
from aoti_plugins.lowering.program_constants import constant_of
from aoti_plugins.lowering.small_weights.fields import fields
from aoti_plugins.lowering.small_weights.sources import name_of, weight_of
from aoti_plugins.lowering.small_weights.weight import NO_ZERO, SmallWeight

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
_FUSED = (
    "triton::fused_moe",
    "triton::fused_moe_batched_gemm",
    "triton::fused_moe_batched_gemm_int8",
)


@dataclass(frozen=True)
class _Product:
    """An op to be, in the place of ``node``."""

    node: Node
    x: Node
    experts: Node
    constants: SmallWeightConstants
    count: int
    norm: Norm | None = None
    gate: Gate = Gate.NONE
    factors: Node | None = None
    residual: Node | None = None
    parts: tuple[Node, ...] = ()
    """What it replaces beside ``node``."""
    sizes: Any = None
    """Of ``node``, if it has more dims than rows and columns."""


def expert_linears(program: ExportedProgram, has_row_kernel: bool) -> None:
    """Replace ``aoti_plugins::chosen_products`` by ``expert_linear``, in place.

    Those whose matrices are a constant of 4 or 8 bits, of float16 or bfloat16, in the outermost
    graph; with the gate behind them, or the sum of several products times factors and what is added
    to that. The ops ``triton::fused_moe`` and so on of ExecuTorch's CUDA backend, whose weights are
    constants of 4 bits, become two such ops.

    Args:
        program: of ATen ops.
        has_row_kernel: all GPUs to lower for have a kernel of one row; a norm in front is of the
            product then.
    """
    for node in list(program.graph.nodes):
        if name_of(node) in _FUSED:
            _replace_fused(program, node, has_row_kernel)
            continue
        product = _product(program, node)
        if product is not None:
            product = _with_sum(_with_gate(product))
            _emit(_with_norm(program, product) if has_row_kernel else product)
    program.graph.eliminate_dead_code()


def _product(program: ExportedProgram, node: Node) -> _Product | None:
    if node.target is not torch.ops.aoti_plugins.chosen_products.default:
        return None
    rows, experts, matrices = node.args
    dtype = rows.meta["val"].dtype
    if matrices.target is not _aten.reshape.default or dtype not in _HALVES:
        return None
    count, columns, k = matrices.meta["val"].shape
    weight = weight_of(program, matrices.args[0])
    if weight is None or weight.codes.shape != (count * columns, k) or not is_supported(weight):
        return None
    if columns % ROWS or count > MOST_EXPERTS:
        return None
    constants = constants_of(program, weight, dtype)
    return _Product(node, _without_repeats(rows), _as_int64(node, experts), constants, count)


def _as_int64(before: Node, numbers: Node) -> Node:
    if numbers.meta["val"].dtype == torch.int64:
        return numbers
    return call(before, _aten.to.dtype, numbers, torch.int64)


def _replace_fused(program: ExportedProgram, node: Node, has_row_kernel: bool) -> None:
    """Replace an op of ExecuTorch's CUDA backend; its scales are ``[experts, columns, groups]``."""
    x, first, first_scale, second, second_scale, shares, experts, _, count, _ = node.args
    dtype = x.meta["val"].dtype
    weights = [
        _fused_weight(program, *one) for one in ((first, first_scale), (second, second_scale))
    ]
    if dtype not in _HALVES or count > MOST_EXPERTS:
        return
    if any(one is None or not is_supported(one) for one in weights):
        return
    if any(one is not None and one.codes.size(0) // count % ROWS for one in weights):
        return
    up, down = (constants_of(program, one, dtype) for one in weights if one is not None)
    numbers = call(node, _aten.reshape.default, _as_int64(node, experts), [-1])
    gated = _Product(node, x, numbers, up, count, gate=Gate.SILU)
    if has_row_kernel:
        gated = _with_norm(program, gated)
    rows = call(node, torch.ops.aoti_plugins.expert_linear.default, *_arguments(gated))
    factors = call(node, _aten.to.dtype, shares, torch.float32)
    _emit(_with_residual(_Product(node, rows, numbers, down, count, factors=factors)))


def _fused_weight(program: ExportedProgram, packed: Node, scale: Node) -> SmallWeight | None:
    """Of ``[experts, columns, k / 2]`` bytes with two codes, the even ones in the lower half."""
    codes, scales = constant_of(program, packed), constant_of(program, scale)
    if codes is None or scales is None:
        return None
    numbers = fields(codes.view(torch.uint8).flatten(0, 1), 8, 4).to(torch.uint8)
    return SmallWeight(packed.name, numbers, scales.flatten(0, 1), None, 4, NO_ZERO)


def _without_repeats(rows: Node) -> Node:
    """Rows that are repeated one by one, once."""
    if rows.target is _aten.repeat_interleave.self_int and rows.args[2:] == (0,):
        return rows.args[0]
    return rows


def _with_gate(product: _Product) -> _Product:
    behind = (
        node
        for split in product.node.users
        for half in split.users
        for one in half.users
        for node in (one, *one.users)
    )
    for node in behind:
        found = gated_of(node)
        is_own = found is not None and (found.first, found.second) == (product.node, None)
        if found is not None and is_own and node.meta["val"].shape[-1] % ROWS == 0:
            return replace(product, node=node, gate=found.gate, parts=(product.node,))
    return product


def _with_norm(program: ExportedProgram, product: _Product) -> _Product:
    """The product of one row with the norm in front of it, where that saves a kernel."""
    rows = product.x.meta["val"].shape[0]
    bits, group_size, zero_kind = product.constants.kinds
    is_streamed = (bits, zero_kind) == (4, NO_ZERO) and group_size in STREAMED_GROUPS
    if product.factors is not None or not isinstance(rows, int) or rows != 1 or not is_streamed:
        return product
    norm = norm_of_one_row(program, product.x)
    return product if norm is None else replace(product, x=norm.x, norm=norm)


def _is_second(product: _Product) -> bool:
    """Whether a product in front, whose result this one multiplies, is of the same experts.

    The op lets Inductor choose layouts, so both read the numbers where they are: a copy in between
    would be read before it is there.
    """
    first = product.x
    is_product = first.target is torch.ops.aoti_plugins.expert_linear.default
    return is_product and first.args[1] is product.experts


def _with_sum(product: _Product) -> _Product:
    """The product, if its results are multiplied with factors and added up, with that sum."""
    scaled = _only_user(product.node)
    factors = [other for one, other in either(scaled, _aten.mul.Tensor) if one is product.node]
    if not factors or product.x.meta["val"].shape[0] != product.experts.meta["val"].shape[0]:
        return product
    factor = _column(factors[0])
    grouped = _only_user(scaled)
    total = _only_user(grouped)
    if factor is None or grouped is None or total is None or not _is_sum(grouped, total):
        return product
    chosen = grouped.meta["val"].shape[1]
    if not isinstance(chosen, int):
        return product
    cast = _only_user(total)
    if total.meta["val"].dtype != product.node.meta["val"].dtype:
        if cast is None or uncast(cast) is not total:
            return product
        total = cast
    if total.meta["val"].dtype != product.node.meta["val"].dtype:
        return product
    shares = call(total, _aten.reshape.default, factor, [-1, chosen])
    wide = call(total, _aten.to.dtype, shares, torch.float32)
    return _with_residual(replace(product, node=total, factors=wide, parts=(product.node,)))


def _with_residual(product: _Product) -> _Product:
    total = product.node
    viewed = _only_user(total)
    if viewed is None or viewed.target is not _aten.reshape.default:
        viewed = total
    added = _only_user(viewed)
    other = None if added is None else residual_of(added, viewed)
    if added is None or other is None:
        return product
    parts = (*product.parts, total)
    if viewed is total:
        return replace(product, node=added, residual=other, parts=parts)
    rows = call(added, _aten.reshape.default, other, [-1, total.meta["val"].shape[-1]])
    return replace(product, node=added, residual=rows, parts=parts, sizes=viewed.args[1])


def _column(node: Node) -> Node | None:
    """A vector that became a column."""
    if node.target is not _aten.unsqueeze.default or node.args[1] not in (1, -1):
        return None
    return node.args[0] if node.args[0].meta["val"].dim() == 1 else None


def _is_sum(grouped: Node, total: Node) -> bool:
    """Whether rows ``[m * chosen, n]`` are ``[m, chosen, n]``, and are summed by the second dim."""
    if grouped.target is not _aten.reshape.default:
        return False
    if grouped.meta["val"].dim() != 3 or total.target is not _aten.sum.dim_IntList:
        return False
    is_same = grouped.meta["val"].shape[-1] == grouped.args[0].meta["val"].shape[-1]
    return is_same and total.args[1:] == ([1],) and not total.kwargs


def _only_user(node: Node | None) -> Node | None:
    return next(iter(node.users)) if node is not None and len(node.users) == 1 else None


def _arguments(product: _Product) -> tuple[Any, ...]:
    constants = product.constants
    return (
        product.x,
        product.experts,
        constants.codes,
        constants.scale,
        constants.zero,
        None if product.norm is None else product.norm.factors,
        product.factors,
        product.residual,
        product.count,
        *constants.kinds,
        0.0 if product.norm is None else product.norm.epsilon,
        int(product.gate),
        _is_second(product),
    )


def _emit(product: _Product) -> None:
    node, args = product.node, _arguments(product)
    op = torch.ops.aoti_plugins.expert_linear.default
    found = call(node, op, *args)
    comes_from(found, *product.parts, node)
    if product.sizes is not None:
        found = call(node, _aten.reshape.default, found, product.sizes)
    node.replace_all_uses_with(found)
    node.graph.erase_node(node)
