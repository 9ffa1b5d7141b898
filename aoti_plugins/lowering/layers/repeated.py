"""Finds layers of a model that compute the same with other weights.

A layer is what one member of a ``ModuleList`` or ``Sequential`` computes, by ``nn_module_stack``;
so are the blocks of a stage of a network for images.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.passes.restore_views import written_by

LEAST = 3
"""How many layers have to be equal: one is traced by itself as well, so that two save nothing."""

_MEMBER = re.compile(r"(?:^|\.)\d+(?=\.|$)")


@dataclass(frozen=True)
class Layer:
    """Consecutive nodes of a graph.

    Attributes:
        path: of the module that they are from, such as ``model.layers.3``.
        nodes: in the order of the graph.
        inputs: what they use and do not compute, in the order of its first use.
        outputs: those of them that others use.
        written: placeholders that they write to.
        structure: equal for layers that compute the same with other inputs.
    """

    path: str
    nodes: tuple[Node, ...] = field(repr=False)
    inputs: tuple[Node, ...] = field(repr=False)
    outputs: tuple[Node, ...] = field(repr=False)
    written: tuple[Node, ...] = field(repr=False)
    structure: Any = field(repr=False)


def equal_layers(graph: Graph, kinds: Mapping[str, object]) -> list[list[Layer]]:
    """Groups of at least ``LEAST`` layers that compute the same, none within another.

    Args:
        graph: of an ATen program; nodes carry ``meta["val"]``.
        kinds: what each constant is, by the placeholder's name; equal layers have equal kinds.
    """
    calls = [node for node in graph.nodes if node.op == "call_function"]
    found: list[list[Layer]] = []
    taken: set[Node] = set()
    depth = 0
    while by_path := _by_path([n for n in calls if n not in taken], depth):
        layers = [_layer(path, nodes, kinds) for path, nodes in by_path.items()]
        for group in _equal(layer for layer in layers if layer is not None):
            if len(group) >= LEAST:
                found.append(group)
                taken.update(node for layer in group for node in layer.nodes)
        depth += 1
    return found


def _by_path(calls: Sequence[Node], depth: int) -> dict[str, list[Node]]:
    """Nodes by the path of the member that they are in, if they are in so many of them."""
    found: dict[str, list[Node]] = {}
    for node in calls:
        members = list(_members(node))
        if len(members) > depth:
            found.setdefault(members[depth], []).append(node)
    return found


def _members(node: Node) -> Iterator[str]:
    """Paths of members that a node is in, from the outside to the inside."""
    stack = node.meta.get("nn_module_stack") or {}
    path = str(list(stack.values())[-1][0]) if stack else ""
    return (path[: member.end()] for member in _MEMBER.finditer(path))


def _equal(layers: Iterable[Layer]) -> list[list[Layer]]:
    groups: dict[Any, list[Layer]] = {}
    for layer in layers:
        groups.setdefault(layer.structure, []).append(layer)
    return list(groups.values())


def _layer(path: str, nodes: list[Node], kinds: Mapping[str, object]) -> Layer | None:
    """The layer of some nodes; ``None`` where they are not one that can be an op."""
    within = set(nodes)
    if any(one.op == "call_function" and one not in within for one in _between(nodes)):
        return None
    inputs = list(dict.fromkeys(n for node in nodes for n in node.all_input_nodes))
    inputs = [node for node in inputs if node not in within]
    outputs = [node for node in nodes if any(user not in within for user in node.users)]
    if not all(map(_is_plain, nodes)) or not all(map(is_fixed_tensor, [*inputs, *outputs])):
        return None
    written = tuple(dict.fromkeys(one for node in nodes for one in written_by(node)))
    if any(user not in within for node in written for user in node.users):
        return None
    places = {node: f"input {index}" for index, node in enumerate(inputs)}
    places |= {node: f"result {index}" for index, node in enumerate(nodes)}
    structure = (
        tuple((kinds.get(node.name), _described(node)) for node in inputs),
        tuple(
            (node.target, frozen(node.args, places), frozen(node.kwargs, places)) for node in nodes
        ),
        tuple(places[node] for node in outputs),
    )
    return Layer(path, tuple(nodes), tuple(inputs), tuple(outputs), written, structure)


def _between(nodes: Sequence[Node]) -> Iterator[Node]:
    """All nodes of the graph from the first to the last."""
    node = nodes[0]
    while node is not nodes[-1]:
        yield node
        node = node.next


def _is_plain(node: Node) -> bool:
    """Whether a node may be part of an op: no size is computed, and what it writes is a buffer."""
    values = pytree.tree_leaves(node.meta.get("val"))
    if any(isinstance(one, torch.SymInt | torch.SymBool | torch.SymFloat) for one in values):
        return False
    if not all(_is_fixed(one) for one in values if isinstance(one, Tensor)):
        return False
    if not isinstance(node.target, OpOverload):
        return getattr(node.target, "__name__", "") == "getitem"
    return all(one.op == "placeholder" for one in written_by(node))


def _is_fixed(value: Tensor) -> bool:
    """Whether a tensor's sizes and strides are numbers."""
    return all(isinstance(one, int) for one in (*value.size(), *value.stride()))


def is_fixed_tensor(node: Node) -> bool:
    """Whether a node is one tensor whose sizes are numbers, with dimensions."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and _is_fixed(value) and value.dim() > 0


def _described(node: Node) -> tuple[Any, ...]:
    value: Any = node.meta["val"]
    return value.dtype, tuple(value.size()), value.stride(), str(value.device)


def frozen(value: Any, places: Mapping[Node, str]) -> Any:
    """Arguments of a node as something that can be compared and hashed."""
    if isinstance(value, Node):
        return Node, places[value]
    if isinstance(value, list | tuple):
        return list, tuple(frozen(one, places) for one in value)
    if isinstance(value, dict):
        return dict, tuple((key, frozen(one, places)) for key, one in value.items())
    if isinstance(value, slice):
        return slice, frozen((value.start, value.stop, value.step), places)
    return type(value), repr(value)
