"""The constants of an exported program, as graph passes find and add them."""

from __future__ import annotations

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from aoti_plugins.lowering import written_buffers


def constant_of(program: ExportedProgram, node: object) -> torch.Tensor | None:
    """The parameter, buffer or constant that a placeholder stands for.

    ``None`` for any other node, and for a buffer that some method writes to.
    """
    if not isinstance(node, Node) or node.op != "placeholder":
        return None
    signature = program.graph_signature
    fqn = signature.inputs_to_parameters.get(node.name)
    fqn = signature.inputs_to_buffers.get(node.name, fqn)
    fqn = signature.inputs_to_lifted_tensor_constants.get(node.name, fqn)
    if fqn is None or fqn in signature.buffers_to_mutate.values():
        return None
    if written_buffers.is_written(fqn):
        return None
    return value_of(program, fqn)


def value_of(program: ExportedProgram, fqn: str) -> torch.Tensor | None:
    """The parameter, buffer or constant of a name."""
    found = program.state_dict.get(fqn, program.constants.get(fqn))
    return found if isinstance(found, torch.Tensor) else None


def add_constant(program: ExportedProgram, name: str, value: torch.Tensor) -> Node:
    """A placeholder for one more constant, in front of the others; one of that name is used again.

    Args:
        program: gets it, in place.
        name: of the placeholder and of the constant.
        value: the constant.
    """
    graph = program.graph
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        return create_constant_placeholder(
            program, graph, name, InputKind.BUFFER, value, persistent_buffer=True
        )
