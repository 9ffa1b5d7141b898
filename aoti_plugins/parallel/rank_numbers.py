"""Numbers in code that depend on the rank become constants, of which each rank has its own.

PyTorch writes some into the graph where it divides by rank: the first row that a rank has of an
embedding, the part of a tensor that it keeps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.program_constants import add_constant

_aten = torch.ops.aten
_Nodes = tuple[Node, ...]


def lift_rank_numbers(programs: Sequence[ExportedProgram]) -> None:
    """Make numbers constants where they are others on each rank, in all programs, in place.

    Operands of elementwise ops, bounds of slices, and which part of a split is taken. What differs
    otherwise is left.

    Args:
        programs: by rank, in ATen.
    """
    graphs = [list(program.graph.nodes) for program in programs]
    if len({len(graph) for graph in graphs}) != 1:
        return
    changed = False
    for nodes in zip(*graphs, strict=True):
        how = _lifter(nodes)
        if how is not None:
            changed = True
            for program, node in zip(programs, nodes, strict=True):
                how(program, node)
    for program in programs if changed else ():
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()


def _lifter(nodes: _Nodes) -> Callable[[ExportedProgram, Node], None] | None:
    """How the numbers of a node are lifted, one of each rank; ``None`` where they are the same."""
    first = nodes[0]
    if first.op != "call_function" or any(node.target is not first.target for node in nodes):
        return None
    differs = [i for i in range(len(first.args)) if _differs([node.args[i] for node in nodes])]
    if not differs:
        return None
    if first.target is _aten.slice.Tensor and set(differs) <= {2, 3}:
        sizes = {node.meta["val"].size(node.args[1]) for node in nodes}
        return _lift_slice if len(sizes) == 1 and len(first.args) < 5 else None
    if first.target is _aten.narrow.default and differs == [2]:
        return _lift_slice
    if first.target is operator.getitem:
        return _lift_part if _is_split(first.args[0]) and _have_one_size(nodes) else None
    return _lift_operand(differs[0]) if len(differs) == 1 and _tensor_overload(first) else None


def _differs(values: Sequence[Any]) -> bool:
    """Whether they are numbers, and not the same."""
    are_numbers = all(isinstance(value, int | float) for value in values)
    return are_numbers and any(value != values[0] for value in values)


def _tensor_overload(node: Node) -> Any:
    """The overload of an op that takes a tensor for the number; ``None`` where there is none."""
    op = node.target
    if not isinstance(op, torch._ops.OpOverload) or op._overloadname not in ("Scalar", "Tensor"):
        return None
    return getattr(op.overloadpacket, "Tensor", None)


def _lift_operand(index: int) -> Callable[[ExportedProgram, Node], None]:
    def lift(program: ExportedProgram, node: Node) -> None:
        number = add_constant(program, f"{node.name}_number", torch.tensor(node.args[index]))
        node.target = _tensor_overload(node)
        node.args = (*node.args[:index], number, *node.args[index + 1 :])

    return lift


def _lift_slice(program: ExportedProgram, node: Node) -> None:
    source, dim, start = node.args[:3]
    size = source.meta["val"].size(dim)
    first = start if start >= 0 else size + start
    _take(program, node, source, dim, min(first, size))


def _is_split(node: Any) -> bool:
    return isinstance(node, Node) and node.target in (
        _aten.split.Tensor,
        _aten.split_with_sizes.default,
        _aten.chunk.default,
    )


def _have_one_size(nodes: _Nodes) -> bool:
    return len({tuple(node.meta["val"].shape) for node in nodes}) == 1


def _lift_part(program: ExportedProgram, node: Node) -> None:
    split, index = node.args
    dim = split.args[2] if len(split.args) > 2 else split.kwargs.get("dim", 0)
    parts = split.meta["val"]
    start = sum(part.size(dim) for part in parts[: index % len(parts)])
    _take(program, node, split.args[0], dim, start)


def _take(program: ExportedProgram, node: Node, source: Node, dim: int, start: int) -> None:
    """Let a node be so many elements of another one from a place on, by their indices."""
    count = node.meta["val"].size(dim)
    places = add_constant(program, f"{node.name}_places", torch.arange(start, start + count))
    with node.graph.inserting_before(node):
        taken = node.graph.call_function(_aten.index_select.default, (source, dim, places))
    taken.meta.update(node.meta)
    node.replace_all_uses_with(taken)
    node.graph.erase_node(node)
