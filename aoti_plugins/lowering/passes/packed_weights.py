"""Weights of 4 bits that a program has in bytes get them in 4 bits."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.small_weights.constants import packed_constants
from aoti_plugins.lowering.small_weights.packed import is_packable
from aoti_plugins.lowering.small_weights.sources import affine_weight_of


def packed_weights(program: ExportedProgram) -> None:
    """Replace ``torchao::dequantize_affine`` of constants, in place; expects ATen ops.

    In the outermost graph, where no kernel of the device's took the weight before. Those of 8 bits
    are replaced as well, so that they are the constants of which ``gathered_rows`` takes rows.
    """
    for node in list(program.graph.nodes):
        weight = affine_weight_of(program, node)
        if weight is None or not is_packable(weight):
            continue
        kinds = (weight.bits, weight.zero_kind, node.meta["val"].dtype)
        constants = packed_constants(program, weight)
        call_instead(node, torch.ops.aoti_plugins.packed_weight.default, *constants, *kinds)
    program.graph.eliminate_dead_code()
