"""Products with weights in blocks of GGUF files become one op, which reads these as they are."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

import aoti_plugins.lowering.small_weights.gguf_linear  # noqa: F401 -- registers the op
from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.small_weights.products import product_of_blocks

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def gguf_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::gguf_linear``, in place; expects ATen ops.

    What else reads a weight, as an embedding does that is also the head, reads the same blocks.
    """
    for node in list(program.graph.nodes):
        found = product_of_blocks(node)
        if found is None:
            continue
        (x, _, bias), (blocks, kind) = found
        dtype = x.meta["val"].dtype
        if dtype in _DTYPES and node.meta["val"].dtype == dtype:
            op = torch.ops.aoti_plugins.gguf_linear.default
            call_instead(node, op, x, blocks, bias, kind)
    program.graph.eliminate_dead_code()
