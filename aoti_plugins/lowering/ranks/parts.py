"""What of a program's constants is one rank's: ``aoti_plugins::of_rank``, and what follows."""

from __future__ import annotations

import contextlib
import contextvars
import copy
from collections.abc import Iterator

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.constants import ALIGNMENT
from aoti_plugins.lowering.program_constants import add_constant, constant_of
from aoti_plugins.parallel.ops import COLLECTIVES
from aoti_plugins.parallel.rewriting import is_collective, op_of, rewrite_collectives
from aoti_plugins.parallel.same_code import first_difference

_rank: contextvars.ContextVar[int] = contextvars.ContextVar("rank", default=0)


def is_of_rank(node: Node) -> bool:
    """Whether a node is this rank's part of a constant."""
    return op_of(node) is torch.ops.aoti_plugins.of_rank.default


def is_replaced(node: Node) -> bool:
    """Whether lowering replaces a node: a constant's part, or a collective of PyTorch's."""
    return is_of_rank(node) or is_collective(node)


def num_ranks(program: ExportedProgram) -> int:
    """How many ranks a program is for; 1 where nothing in it is about ranks.

    Raises:
        LoweringError: some of it is for other ranks than the rest.
    """
    found = {}
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if node.op == "call_function" and op_of(node) in COLLECTIVES:
                found[node.args[-3]] = node.name
            elif node.op == "call_function" and is_of_rank(node):
                found[node.args[0].meta["val"].size(0)] = node.name
    if len(found) > 1:
        listed = ", ".join(f"{node} for {ranks}" for ranks, node in sorted(found.items()))
        raise LoweringError(f"the program is for more than one number of ranks: {listed}")
    return next(iter(found), 1)


def with_own_collectives(program: ExportedProgram) -> ExportedProgram:
    """The program with PyTorch's functional collectives as ours; itself where it has none.

    Raises:
        LoweringError: a process group is not there, or is none for a program of all ranks.
    """
    modules = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    if not any(is_collective(node) for module in modules for node in module.graph.nodes):
        return program
    found = copy.copy(program)
    found._graph_module = copy.deepcopy(program.graph_module)
    rewrite_collectives(found)
    return found


@contextlib.contextmanager
def lowering_for(rank: int) -> Iterator[None]:
    """Within the block, ``parts_of_constants`` takes the parts of a rank."""
    token = _rank.set(rank)
    try:
        yield
    finally:
        _rank.reset(token)


def parts_of_constants(program: ExportedProgram) -> None:
    """Replace ``of_rank`` of constants by the rank's part, in place; expects ATen ops.

    Raises:
        LoweringError: what it takes a part of is no constant.
    """
    found = [one for one in program.graph.nodes if is_of_rank(one)]
    for node in found:
        stacked = constant_of(program, node.args[0])
        if stacked is None:
            raise LoweringError(
                f"{node.name} takes its rank's part of {node.args[0]}, which is no constant of the "
                "program"
            )
        part = stacked[_rank.get()]
        if part.nbytes % ALIGNMENT:  # storages are cut at multiples of it
            part = part.clone()
        part = add_constant(program, f"{node.args[0].name}_of_rank", part)
        node.replace_all_uses_with(part)
        program.graph.erase_node(node)
    if found:
        program.graph_module.recompile()


def of_ranks(program: ExportedProgram, count: int) -> list[ExportedProgram]:
    """Copies of a program for ranks from 1 on, which share its constants."""
    return [_copy(program) for _ in range(1, count)]


def _copy(program: ExportedProgram) -> ExportedProgram:
    found = copy.copy(program)
    found._graph_module = copy.deepcopy(program.graph_module)
    found._graph_signature = copy.deepcopy(program.graph_signature)
    found._state_dict = dict(program.state_dict)
    found._constants = dict(program.constants)
    return found


def check_same_code(programs: list[ExportedProgram]) -> None:
    """Refuse ranks whose constants led graph passes to other graphs.

    Args:
        programs: by rank, after all passes.

    Raises:
        LoweringError: names the rank and the first node that differs.
    """
    for rank, program in enumerate(programs[1:], 1):
        difference = first_difference(programs[0], program)
        if difference is not None:
            mine, other = difference
            raise LoweringError(
                f"graph passes made something else of the constants of rank {rank} than of those "
                f"of rank 0, and one code is to be for all: {mine} against {other}"
            )
