"""The exported programs of all ranks as one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from aoti_plugins.errors import LoweringError
from aoti_plugins.parallel import ops  # noqa: F401 -- registers of_rank
from aoti_plugins.parallel.rank_numbers import lift_rank_numbers
from aoti_plugins.parallel.same_code import first_difference


def merge_ranks(
    programs: Sequence[ExportedProgram | Mapping[str, ExportedProgram]],
) -> Any:
    """Make one program of the programs of all ranks.

    What these compute must be the same, constants apart. A constant that is not equal on all ranks
    becomes one of ``[world_size, ...]``, of which each rank takes its part by
    ``aoti_plugins::of_rank``; lowering gives each rank a file with its own.

    Args:
        programs: by rank, with collectives that name their ranks (``rewrite_collectives``); or the
            methods of each rank by name. They are taken apart: their constants are gone after this.

    Returns:
        The program, or the methods by name.

    Raises:
        LoweringError: two ranks compute something else, have constants of other sizes, or write to
            a buffer that does not begin with the same values.
    """
    if not programs:
        raise LoweringError("there are no programs of ranks to make one of")
    stacks: dict[tuple[int, ...], Tensor] = {}
    if isinstance(programs[0], ExportedProgram):
        return _merged(programs, stacks, "the program")
    names = [list(one) for one in programs]
    if any(one != names[0] for one in names):
        raise LoweringError(f"ranks have methods of other names: {names}")
    return {
        name: _merged([one[name] for one in programs], stacks, f"method {name!r}")
        for name in names[0]
    }


def _merged(programs: Any, stacks: dict[tuple[int, ...], Tensor], what: str) -> ExportedProgram:
    programs = [_with_plain_constants(program) for program in programs]
    lift_rank_numbers(programs)
    first: ExportedProgram = programs[0]
    for rank, program in enumerate(programs):
        _check_same(first, program, rank, what)
    if len(programs) == 1:
        return first
    written = _written(first)
    for where in ("state_dict", "constants"):
        for fqn in list(getattr(first, where)):
            values = [getattr(program, where)[fqn] for program in programs]
            if not isinstance(values[0], Tensor) or _are_equal(values):
                continue
            _check_layouts(values, f"constant {fqn!r} of {what}")
            if fqn in written:
                raise LoweringError(
                    f"{what} writes to the buffer {fqn!r}, which begins with other values on each "
                    "rank; let it begin with the same"
                )
            stacked = _stacked(values, stacks)
            getattr(first, where)[fqn] = stacked
            _take_part(first, fqn, stacked)
    first.graph_module.recompile()
    return first


def _with_plain_constants(program: ExportedProgram) -> ExportedProgram:
    """The program with what its constants are made of as constants, where they are subclasses.

    Those of torchao for instance, whose codes and scales become constants of their own.
    """
    values = (*program.state_dict.values(), *program.constants.values())
    if not any(is_traceable_wrapper_subclass(value) for value in values):
        return program
    return program.run_decompositions({})


def _written(program: ExportedProgram) -> set[str]:
    """FQNs of what a program writes to, functional or not."""
    signature = program.graph_signature
    targets = {spec.arg.name: spec.target for spec in signature.input_specs}
    found = set(signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        op = node.target
        if isinstance(op, torch._ops.OpOverload) and op._schema.is_mutable:
            for parameter, value in zip(op._schema.arguments, node.args, strict=False):
                is_written = parameter.alias_info is not None and parameter.alias_info.is_write
                base = _base(value) if is_written and isinstance(value, Node) else None
                fqn = targets.get(base.name) if base is not None else None
                found |= {fqn} if fqn is not None else set()
    return found


def _base(node: Node) -> Node:
    """What a view is of."""
    while isinstance(node.target, torch._ops.OpOverload) and (
        node.target.is_view or node.target._schema.is_mutable
    ):
        node = node.args[0]
    return node


def _stacked(values: list[Tensor], stacks: dict[tuple[int, ...], Tensor]) -> Tensor:
    """Constants of ranks as one; the same one for the same constants, which it keeps alive."""
    key = tuple(id(value) for value in values)
    if key not in stacks:
        found = torch.stack([value.detach() for value in values])
        is_parameter = isinstance(values[0], torch.nn.Parameter)
        stacks[key] = torch.nn.Parameter(found, requires_grad=False) if is_parameter else found
        stacks[key]._of_ranks = values
    return stacks[key]


def _take_part(program: ExportedProgram, fqn: str, stacked: Tensor) -> None:
    """Let the placeholders of a constant be of all ranks, and what used them take its part."""
    graph = program.graph
    targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
    for node in [n for n in graph.find_nodes(op="placeholder") if targets.get(n.name) == fqn]:
        value = node.meta["val"]
        mode = detect_fake_mode(value)
        if mode is None:
            raise LoweringError(f"constant {fqn!r} is not described by a fake tensor")
        with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
            part = graph.call_function(torch.ops.aoti_plugins.of_rank.default, (node,))
        part.meta.update({k: v for k, v in node.meta.items() if k != "val"})
        part.meta["val"] = value
        node.meta["val"] = mode.from_tensor(stacked.detach(), static_shapes=True)
        node.replace_all_uses_with(part, delete_user_cb=lambda user, part=part: user is not part)


def _are_equal(values: list[Tensor]) -> bool:
    first = values[0]
    return all(
        one is first
        or (
            (one.dtype, one.shape, one.stride()) == (first.dtype, first.shape, first.stride())
            and torch.equal(_bytes(one), _bytes(first))
        )
        for one in values[1:]
    )


def _bytes(value: Tensor) -> Tensor:
    """As bytes, in which a NaN is equal to itself."""
    return value.detach().contiguous().flatten().view(torch.uint8)


def _check_layouts(values: list[Tensor], what: str) -> None:
    first = values[0]
    for rank, value in enumerate(values):
        if (value.dtype, value.shape) != (first.dtype, first.shape):
            raise LoweringError(
                f"{what} is {_layout(first)} on rank 0 and {_layout(value)} on rank {rank}; one "
                "program needs equal sizes on all ranks: pad it"
            )


def _layout(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _check_same(first: ExportedProgram, other: ExportedProgram, rank: int, what: str) -> None:
    """Refuse a rank that computes something else than rank 0."""
    difference = first_difference(first, other)
    if difference is None:
        return
    here, there = difference
    raise LoweringError(
        f"{what} of rank {rank} is another one than that of rank 0, and one program is to be for "
        f"all ranks:\n- rank 0: {here}\n- rank {rank}: {there}\nWhat depends on the rank has to be "
        "a constant of the module (a buffer, a weight), not a number in its code."
    )
