"""Products with small weights take in the norm in front of them and what follows them.

The rows may also be dynamic: the runtime chooses when it sees their number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.fused_linear  # noqa: F401  it defines the op
from aoti_plugins.cuda.passes.fused_products import Product, fuse
from aoti_plugins.lowering.program_constants import add_constant, constant_of


@dataclass(frozen=True, kw_only=True)
class _SmallWeightProduct(Product):
    weight: Node
    scale: Node
    zero: Node | None
    bias: Node | None
    bits: int
    group_size: int
    zero_kind: int

    @property
    def _constants(self) -> tuple[Node | None, ...]:
        """What has a row for each column of the result."""
        return self.weight, self.scale, self.zero, self.bias

    def with_second(self, program: ExportedProgram, second: Product) -> Product | None:
        assert isinstance(second, _SmallWeightProduct)
        same = ("bits", "group_size", "zero_kind")
        pairs = list(zip(self._constants, second._constants, strict=True))
        if any(getattr(self, name) != getattr(second, name) for name in same) or any(
            _kind(one) != _kind(other) for one, other in pairs
        ):
            return None
        weight, scale, zero, bias = (_joined(program, one, other) for one, other in pairs)
        assert weight is not None
        assert scale is not None
        return replace(self, weight=weight, scale=scale, zero=zero, bias=bias)

    def call(self, x: Node, residual: Node | None) -> tuple[Any, tuple[Any, ...]]:
        norm = self.norm
        return torch.ops.aoti_plugins.fused_linear.default, (
            x,
            *self._constants,
            None if norm is None else norm.factors,
            residual,
            self.bits,
            self.group_size,
            self.zero_kind,
            0.0 if norm is None else norm.epsilon,
            int(self.gate),
        )


def fused_linears(program: ExportedProgram) -> None:
    """Extend ``aoti_plugins::fused_linear``, in place; expects ATen ops around them.

    Those which the pass ``small_weights`` put in the outermost graph.
    """
    fuse(program, _product)


def _product(node: Node) -> Product | None:
    if node.target is not torch.ops.aoti_plugins.fused_linear.default:
        return None
    x, weight, scale, zero, bias, _, _, bits, group_size, zero_kind, _, _ = node.args
    return _SmallWeightProduct(
        node=node,
        x=x,
        weight=weight,
        scale=scale,
        zero=zero,
        bias=bias,
        bits=bits,
        group_size=group_size,
        zero_kind=zero_kind,
    )


def _kind(node: Node | None) -> tuple[object, ...] | None:
    return None if node is None else (node.meta["val"].shape, node.meta["val"].dtype)


def _joined(program: ExportedProgram, one: Node | None, other: Node | None) -> Node | None:
    if one is None or other is None:
        return None
    first, second = constant_of(program, one), constant_of(program, other)
    assert first is not None
    assert second is not None
    joined = torch.cat((first.detach(), second.detach()))
    return add_constant(program, f"{one.name}_and_{other.name}", joined)
