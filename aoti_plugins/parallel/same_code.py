"""Whether programs of several ranks are one: what they compute, constants apart."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.fx.node import map_arg


def first_difference(one: ExportedProgram, other: ExportedProgram) -> tuple[str, str] | None:
    """The first line of each in which two programs differ; ``None`` where they do not.

    Args:
        one: of a rank.
        other: of another one.
    """
    mine, theirs = _lines(one), _lines(other)
    if mine == theirs:
        return None
    pairs = zip([*mine, "the end"], [*theirs, "the end"], strict=False)
    return next((a, b) for a, b in pairs if a != b)


def _lines(program: ExportedProgram) -> list[str]:
    """What a program computes, a line for each input, node and output.

    Operations go by their place: names are counted on by whatever changed the graph before.
    """
    names = {
        node: f"%{place}" if node.op == "call_function" else f"%{node.name}"
        for place, node in enumerate(program.graph.nodes)
    }
    nodes = [
        f"{names[node]} = {node.op} {node.target} "
        f"{map_arg(node.args, names.__getitem__)} {map_arg(node.kwargs, names.__getitem__)}"
        for node in program.graph.nodes
    ]
    signature = program.graph_signature
    inputs = [f"input {s.arg.name}: {s.kind.name} {s.target}" for s in signature.input_specs]
    outputs = [
        f"output {i}: {s.kind.name} {s.target}" for i, s in enumerate(signature.output_specs)
    ]
    return [*inputs, *nodes, *outputs]
