"""Products of one row with large weights of 16 bits go to a kernel of the runtime.

With the norm in front of them and what follows them, as ``fused_linears`` does for small weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.row_linear  # noqa: F401  it defines the op
from aoti_plugins.cuda.passes.fused_products import Product, fuse
from aoti_plugins.lowering.program_constants import constant_of

_aten = torch.ops.aten
_DTYPES = (torch.float16, torch.bfloat16)

# A smaller weight takes no longer to read than a kernel to begin; Inductor may make one kernel of
# such a product and others.
_LEAST_NUMEL = 1 << 19

# The kernel reads runs of so many elements.
_MULTIPLE = 32


@dataclass(frozen=True, kw_only=True)
class _RowProduct(Product):
    weight: Node
    bias: Node | None
    gated_weight: Node | None = None

    def with_second(self, program: ExportedProgram, second: Product) -> Product | None:
        del program
        assert isinstance(second, _RowProduct)
        sizes = [one.weight.meta["val"].shape for one in (self, second)]
        if sizes[0] != sizes[1] or self.bias is not None or second.bias is not None:
            return None
        return replace(self, gated_weight=second.weight)

    def call(self, x: Node, residual: Node | None) -> tuple[Any, tuple[Any, ...]]:
        norm = self.norm
        return torch.ops.aoti_plugins.row_linear.default, (
            x,
            self.weight,
            self.gated_weight,
            self.bias,
            None if norm is None else norm.factors,
            residual,
            0.0 if norm is None else norm.epsilon,
            int(self.gate),
        )


def row_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::row_linear``, in place; expects ATen ops.

    Those of one row, of float16 or bfloat16, whose weight is a constant and large, in the outermost
    graph.
    """
    fuse(program, lambda node: _product(program, node))


def _product(program: ExportedProgram, node: Node) -> Product | None:
    if node.target is not _aten.linear.default:
        return None
    x, weight = node.args[0], node.args[1]
    bias = node.args[2] if len(node.args) > 2 else None
    value = constant_of(program, weight)
    if value is None or not isinstance(x, Node) or not isinstance(weight, Node):
        return None
    row, result = x.meta["val"], node.meta["val"]
    same = row.dtype == value.dtype == result.dtype and row.dtype in _DTYPES
    if not same or value.dim() != 2 or value.numel() < _LEAST_NUMEL or value.size(1) % _MULTIPLE:
        return None
    rows = math.prod(row.shape[:-1])
    if not isinstance(rows, int) or rows != 1 or not value.is_contiguous():
        return None
    return _RowProduct(node=node, x=x, weight=weight, bias=bias)
