"""What a program writes to its state is in memory before anything else reads it.

PyTorch 2.11 and 2.12 may generate the write first where the order of a state's strides is not that
of the results: what else reads the new value computes it anew, of the state that was written.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from aoti_plugins.lowering.decompositions.stored import store_result


def new_states_stored(program: ExportedProgram) -> None:
    """Put new values of buffers and inputs that others read into memory of their own, in place."""
    graph = program.graph
    written = {
        spec.arg.name
        for spec in program.graph_signature.output_specs
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    }
    for node in list(graph.nodes):
        if node.op != "call_function" or node.name not in written or not _is_computed_anew(node):
            continue
        stored = store_result(node, node.meta)
        for spec in program.graph_signature.output_specs:
            if spec.arg.name == node.name:
                spec.arg.name = stored.name


_aten = torch.ops.aten
_COPIES = (_aten.copy.default, _aten._to_copy.default, _aten.clone.default, _aten.expand.default)


def _is_computed_anew(node: Node) -> bool:
    """Whether others read it, and it is no tensor in memory that was written to here and there."""
    readers = [user for user in node.users if user.op != "output"]
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return bool(readers) and (is_pointwise or node.target in _COPIES)
