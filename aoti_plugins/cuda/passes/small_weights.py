"""Products with weights of 4 and 8 bits become one op, the weights are laid out for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.fused_linear  # noqa: F401  it defines the op
from aoti_plugins.cuda.gates import Gate
from aoti_plugins.cuda.small_weights.layout import is_supported, pack_codes, pack_groups
from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.program_constants import add_constant
from aoti_plugins.lowering.small_weights.products import Product, product_of
from aoti_plugins.lowering.small_weights.rows import rows_of
from aoti_plugins.lowering.small_weights.weight import ADDED_ZERO, SmallWeight

_DTYPES = (torch.float16, torch.bfloat16)
_OF_HALVES = (4, 32, ADDED_ZERO)
"""Bits, size of groups, kind of zeros that may have scales of float16; must match the kernels of
native/src/cuda/kernels/streamed_row.cu.
"""
_TYPICAL_CODE = 4
"""How far codes of 4 bits are from the middle."""
_CLOSE = 2**-11
"""Of a row's norm; rounding to bfloat16 changes a weight by up to 2^-8 of it."""


def small_weights(program: ExportedProgram, has_half_scales: bool = False) -> None:
    """Replace products by ``aoti_plugins::fused_linear``, in place; expects ATen ops.

    Those whose weight is a constant of 4 or 8 bits and whose other factor is float16 or bfloat16,
    in the outermost graph. What became of the weight before, if anything else needs it, stays.

    Args:
        program: to change.
        has_half_scales: whether all GPUs have the kernel for scales of float16: 9.0.
    """
    graph = program.graph
    for node in list(graph.nodes):
        found = _product(program, node)
        if found is not None:
            _replace(program, node, *found, is_exact=not has_half_scales)
    graph.eliminate_dead_code()


@dataclass(frozen=True)
class SmallWeightConstants:
    """A weight as the runtime's kernels want it.

    Attributes:
        codes: ``[n / 8, k / depth, 512]``.
        scale: ``[n / 8, groups, 8]``.
        zero: likewise, or none.
        kinds: bits, size of groups, and what a zero is.
    """

    codes: Node
    scale: Node
    zero: Node | None
    kinds: tuple[int, int, int]


def constants_of(
    program: ExportedProgram, weight: SmallWeight, dtype: torch.dtype, is_exact: bool = True
) -> SmallWeightConstants:
    """The constants of a weight, which a program gets.

    Args:
        program: gets them, in place.
        weight: what they stand for.
        dtype: of the products.
        is_exact: whether scales and zeros may not be rounded, as they may for ``fused_linear``.
    """
    scale_dtype = _scale_dtype(program, weight, dtype, is_exact)
    name = prefix_of(weight.name, weight.bits)
    codes = add_constant(program, f"{name}_codes", pack_codes(weight.codes, weight.bits))
    scale = add_constant(program, f"{name}_scale", pack_groups(weight.scale.to(scale_dtype)))
    zero = None
    if weight.zero is not None:
        zero = add_constant(program, f"{name}_zero", pack_groups(weight.zero.to(scale_dtype)))
    kinds = (weight.bits, weight.group_size, weight.zero_kind)
    return SmallWeightConstants(codes, scale, zero, kinds)


def prefix_of(source: str, bits: int) -> str:
    """What the names of all constants of a weight begin with: its codes, scales and zeros.

    Args:
        source: name of the placeholder that held the weight.
        bits: 4 or 8.
    """
    return f"{source}_of_{bits}_bits"


def _product(program: ExportedProgram, node: Node) -> Product | None:
    """The product that a node computes, if the kernels do it."""
    found = product_of(program, node)
    if found is None or not is_supported(found[1]):
        return None
    dtype = found[0].meta["val"].dtype
    return found if dtype in _DTYPES and node.meta["val"].dtype == dtype else None


def _replace(
    program: ExportedProgram,
    node: Node,
    x: Node,
    weight: SmallWeight,
    bias: Node | None,
    *,
    is_exact: bool,
) -> None:
    found = constants_of(program, weight, x.meta["val"].dtype, is_exact)
    weights = (found.codes, found.scale, found.zero)
    args = (x, *weights, bias, None, None, *found.kinds, 0.0, int(Gate.NONE))
    call_instead(node, torch.ops.aoti_plugins.fused_linear.default, *args)


def _scale_dtype(
    program: ExportedProgram, weight: SmallWeight, dtype: torch.dtype, is_exact: bool
) -> torch.dtype:
    """The dtype of the product, if it holds all scales and zeros as they are; else float32.

    Or float16, unless they have to be exact: for an embedding that takes rows of the tiles they do.
    """
    values = [weight.scale] if weight.zero is None else [weight.scale, weight.zero]
    if all(_rounding(one, dtype).count_nonzero() == 0 for one in values):
        return dtype
    may_be_rounded = not is_exact and dtype == torch.bfloat16 and _is_close_in_halves(weight)
    return torch.float16 if may_be_rounded and not _has_rows(program, weight) else torch.float32


def _is_close_in_halves(weight: SmallWeight) -> bool:
    """Whether a kernel takes scales of float16, which change no row by more than ``_CLOSE``."""
    if (weight.bits, weight.group_size, weight.zero_kind) != _OF_HALVES or weight.zero is None:
        return False
    parts = [weight.scale.double() * _TYPICAL_CODE, weight.zero.double()]
    errors = [
        _rounding(weight.scale, torch.float16) * _TYPICAL_CODE,
        _rounding(weight.zero, torch.float16),
    ]
    error, size = (torch.cat(some, 1).norm(dim=1) for some in (errors, parts))
    return bool((error <= _CLOSE * size).all())


def _rounding(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """How much numbers become larger in another dtype, in float64."""
    return numbers.to(dtype).double() - numbers.double()


def _has_rows(program: ExportedProgram, weight: SmallWeight) -> bool:
    """Whether an embedding takes rows of a weight: of the tiles of the product, then."""
    sources = [one for one in program.graph.nodes if one.name == weight.name]
    return any(rows_of(user) is not None for source in sources for user in source.users)
