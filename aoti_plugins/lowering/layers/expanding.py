"""Puts back in a partition what its layers have become."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.utils import _pytree as pytree

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.layers.folded_op import (
    LIFTED,
    Folded,
    FoldedLayer,
    Weights,
    folded_of,
    is_folded,
    layers_of,
    results_of,
)

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def expand(program: ExportedProgram) -> None:
    """Replace, in place, every op that stands for layers.

    Args:
        program: a partition, an edge program whose tensors are fake ones.

    Raises:
        LoweringError: what an op stands for is not known.
    """
    ops = [node for node in program.graph.nodes if is_folded(node)]
    if not ops:
        return
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
    if mode is None:
        raise LoweringError("the tensors of this edge program are not fake ones")
    order: dict[str, int] = {}
    values: dict[Node, Any] = {}
    for op in ops:
        _expand(program, op, mode, values)
        order |= folded_of(op).weights.order
    _sort_placeholders(program, order)
    program.graph_module.recompile()


def _expand(
    program: ExportedProgram, op: Node, mode: FakeTensorMode, values: dict[Node, Any]
) -> None:
    """Replace an op; ``values`` has what equal nodes of all layers share."""
    folded = folded_of(op)
    made: list[list[Node]] = []
    for layer in layers_of(op):
        inputs = [
            _weight(program, folded.weights, one, mode)
            if isinstance(one, str)
            else one
            if isinstance(one, Node)
            else made[one[0]][one[1]]
            for one in layer.inputs
        ]
        made.append(_expand_layer(program, op, folded, (layer, inputs), mode, values))
    results = [made[layer][place] for layer, place in results_of(op)]
    for user in list(op.users):
        found = results[user.args[1]]
        user.replace_all_uses_with(found)
        program.graph_signature.replace_all_uses(user.name, found.name)
        program.graph.erase_node(user)
    program.graph.erase_node(op)


def _expand_layer(
    program: ExportedProgram,
    op: Node,
    folded: Folded,
    given: tuple[FoldedLayer, list[Node]],
    mode: FakeTensorMode,
    values: dict[Node, Any],
) -> list[Node]:
    """Put a layer in front of the op that stands for it; returns its results."""
    graph, (layer, inputs) = program.graph, given
    nodes: dict[Node, Node] = {}
    for node in folded.graph.nodes:
        if node.op == "placeholder" and node.name in folded.inputs:
            nodes[node] = inputs[folded.inputs[node.name]]
        elif node.op == "placeholder" and node.name in folded.constants:
            nodes[node] = _constant(program, folded.constants[node.name], mode)
        elif node.op == "call_function":
            with graph.inserting_before(op):
                nodes[node] = graph.node_copy(node, nodes.__getitem__)
            if node not in values:
                values[node] = _value(node, mode)
            meta = _meta(node, op, folded.path, layer.path)
            nodes[node].meta = meta | {"val": values[node]}
    return [nodes[node] for node in folded.graph.output_node().args[0]]


def _constant(program: ExportedProgram, value: Tensor, mode: FakeTensorMode) -> Node:
    """A placeholder of a constant that ExecuTorch made for a layer."""
    first = next(iter(program.graph.nodes))
    with program.graph.inserting_before(first):
        added = program.graph.placeholder(f"{LIFTED}_of_layer")
    added.target = added.name
    added.meta = {"val": mode.from_tensor(value, static_shapes=True)}
    added.meta["val"].constant = value
    argument = TensorArgument(added.name)
    spec = InputSpec(InputKind.BUFFER, argument, added.name, persistent=True)
    program.graph_signature.input_specs.insert(0, spec)
    program.state_dict[added.name] = value
    return added


def _weight(program: ExportedProgram, weights: Weights, name: str, mode: FakeTensorMode) -> Node:
    """The placeholder of a weight that ExecuTorch has not seen."""
    known = program.graph.find_nodes(op="placeholder", target=name)
    if known:
        return known[0]
    first = next(iter(program.graph.nodes))
    with program.graph.inserting_before(first):
        added = program.graph.placeholder(name)
    added.name = name
    added.meta = {"val": _fake(weights.values[name], mode)}
    fqn = weights.fqns[name]
    spec = InputSpec(InputKind.PARAMETER, TensorArgument(name), fqn)
    program.graph_signature.input_specs.insert(0, spec)
    program.state_dict[fqn] = weights.values[name]
    return added


def _sort_placeholders(program: ExportedProgram, known: Mapping[str, int]) -> None:
    """Put weights where they were, and behind them the constants that ExecuTorch made.

    It has these in the order of their first use. Arguments stay in the order that it gives them.

    Args:
        program: changed in place.
        known: the order of the program's own placeholders, by name.
    """
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    places = {node: place for place, node in enumerate(program.graph.nodes)}
    placeholders = [node for node in places if node.op == "placeholder"]
    made = [node for node in placeholders if str(specs[node.name].target).startswith(LIFTED)]
    made.sort(key=lambda node: min((places[user] for user in node.users), default=0))
    given = [node for node in placeholders if specs[node.name].kind is InputKind.USER_INPUT]
    own = [node for node in placeholders if node not in made and node not in given]
    own.sort(key=lambda node: known.get(node.name, -1))
    order = [*own, *made, *given]
    for before, node in itertools.pairwise(order):
        before.append(node)
    program.graph_signature.input_specs = [specs[node.name] for node in order]


def _value(node: Node, mode: FakeTensorMode) -> Any:
    return pytree.tree_map_only(Tensor, lambda one: _fake(one, mode), node.meta.get("val"))


def _meta(node: Node, op: Node, path: str, to: str) -> dict[str, Any]:
    """What is known of a node, which is one of another layer now."""
    meta = dict(node.meta)
    meta["nn_module_stack"] = {
        key: (_moved(str(where), path, to), kind)
        for key, (where, kind) in (meta.get("nn_module_stack") or {}).items()
    }
    meta.pop("debug_handle", None)
    meta.pop("delegation_tag", None)
    return meta | {k: op.meta[k] for k in ("debug_handle", "delegation_tag") if k in op.meta}


def _moved(where: str, path: str, to: str) -> str:
    """Path of a module in another layer."""
    is_within = where == path or where.startswith(f"{path}.")
    return f"{to}{where[len(path) :]}" if is_within else where


def _fake(value: Tensor, mode: FakeTensorMode) -> Tensor:
    with mode:
        return torch.empty_strided(
            value.size(), value.stride(), dtype=value.dtype, device=value.device
        )
