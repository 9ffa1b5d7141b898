"""Products with weights of floats of 8 and 4 bits become one op, which reads these as they are."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

import aoti_plugins.cpu.float_linear  # noqa: F401 -- registers the op
from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.small_weights.float_weights import product_of_floats

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def float_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::float_linear``, in place; expects ATen ops.

    Those whose weight is a constant, in the outermost graph.
    """
    for node in list(program.graph.nodes):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in _DTYPES:
            continue
        found = product_of_floats(program, node)
        if found is None:
            continue
        (x, _, bias), (codes, scale, whole, kind) = found
        op = torch.ops.aoti_plugins.float_linear.default
        call_instead(node, op, x, codes, scale, bias, whole, kind)
    program.graph.eliminate_dead_code()
