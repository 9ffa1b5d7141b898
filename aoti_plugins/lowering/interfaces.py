"""Notes how a method is called, for the runtime: names, structure and bounds of its arguments.

ExecuTorch keeps the structures of arguments and results; what it drops goes into a compile spec of
one of the method's delegates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from aoti_plugins.interface.contents import ClassPlace, Interface, InterfaceValue, encode
from aoti_plugins.interface.structure import NAMED_TUPLE, Node, parse, paths
from aoti_plugins.lowering.size_ranges import exported_bounds

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.export.exported_program import ModuleCallSignature

logger = logging.getLogger(__name__)

_PROTOCOL = 1


def described(program: ExportedProgram) -> bytes:
    """Describe a method.

    Args:
        program: the method as an edge program, before anything is delegated.

    Returns:
        What ``aoti_plugins.interface.contents`` reads; empty where the program does not say how the
        module was called.
    """
    call = _call_signature(program)
    if call is None:
        return b""
    try:
        takes, gives = (_parsed(spec) for spec in (call.in_spec, call.out_spec))
    except NotImplementedError as error:  # a class without a name, which ExecuTorch refuses later
        logger.info("how the method is called is not noted: %s", error)
        return b""
    parameters = tuple(call.forward_arg_names or ())
    return encode(
        Interface(
            parameters=parameters,
            inputs=tuple(_inputs(program, _names(takes, parameters))),
            outputs=tuple(_outputs(program)),
            written=_written(program),
            classes={**_classes(takes, call.in_spec), **_classes(gives, call.out_spec)},
        )
    )


def _call_signature(program: ExportedProgram) -> ModuleCallSignature | None:
    """How the module itself was called."""
    calls = program.module_call_graph
    return calls[0].signature if calls and not calls[0].fqn else None


def _parsed(spec: pytree.TreeSpec) -> Node:
    return parse(pytree.treespec_dumps(spec, _PROTOCOL), "the structure of arguments")


def _names(takes: Node, parameters: tuple[str, ...]) -> Iterator[str]:
    """Name the tensors and numbers that the arguments consist of."""
    arguments = [child for group in takes.children for child in group.children]
    if len(arguments) != len(parameters):
        return
    for name, argument in zip(parameters, arguments, strict=True):
        yield from paths(argument, name)


def _inputs(program: ExportedProgram, names: Iterator[str]) -> Iterator[InterfaceValue]:
    values = _values(program)
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            yield _value(spec.arg, values, next(names, ""))


def _outputs(program: ExportedProgram) -> Iterator[InterfaceValue]:
    values = _values(program)
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT:
            yield _value(spec.arg, values, "")


def _values(program: ExportedProgram) -> dict[str, Any]:
    return {node.name: node.meta.get("val") for node in program.graph.nodes}


def _value(argument: Any, values: dict[str, Any], name: str) -> InterfaceValue:
    """Describe an argument of an ``ExportGraphSignature``."""
    if hasattr(argument, "value"):
        return InterfaceValue(name, is_constant=True, constant=argument.value)
    value = values.get(argument.name)
    if not isinstance(value, torch.Tensor):
        return InterfaceValue(name)
    dtype = str(value.dtype).removeprefix("torch.")
    return InterfaceValue(name, dtype, tuple(map(exported_bounds, value.size())))


def _written(program: ExportedProgram) -> tuple[int, ...]:
    """Inputs that the method writes to, in the order of the outputs that give their new values."""
    signature = program.graph_signature
    inputs = [one.arg for one in signature.input_specs if one.kind == InputKind.USER_INPUT]
    names = [getattr(argument, "name", "") for argument in inputs]
    return tuple(
        names.index(str(one.target))
        for one in signature.output_specs
        if one.kind == OutputKind.USER_INPUT_MUTATION
    )


def _classes(node: Node, spec: pytree.TreeSpec) -> dict[str, ClassPlace]:
    """Where the classes of a structure are."""
    # As ExecuTorch does; fields of dataclasses that are None would be dropped.
    example = pytree.tree_unflatten([0] * spec.num_leaves, spec)
    return dict(_places(node, example))


def _places(node: Node, example: Any) -> Iterator[tuple[str, ClassPlace]]:
    if not node.kind:
        return
    found = type(example)
    if node.class_name:
        fields = tuple(getattr(found, "_fields", ())) if node.kind == NAMED_TUPLE else ()
        yield node.class_name, ClassPlace(found.__module__, found.__qualname__, fields)
    functions = None if node.kind == NAMED_TUPLE else pytree.SUPPORTED_NODES[found]
    children = list(example) if functions is None else functions.flatten_fn(example)[0]
    for child, part in zip(node.children, children, strict=False):
        yield from _places(child, part)
