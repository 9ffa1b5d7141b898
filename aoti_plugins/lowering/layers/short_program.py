"""Leaves most of a program's equal layers out while Inductor generates code.

Inductor would write the same for each, with other constants. So the wrapper of a program with a few
of them says all that the wrapper of the whole program would (``inductor/loops.py``).
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.layers.repeated import frozen
from aoti_plugins.lowering.layers.runs import Run, longest_run, longest_true, run_of
from aoti_plugins.lowering.program_constants import value_of

KEPT = 4
"""How many layers stay: code of the first and of the last is unlike that of the others."""

LEAST = 2 * KEPT
"""How many equal layers there have to be."""

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)

_VIEWS = (torch.ops.aten.view, torch.ops.aten.reshape, torch.ops.aten._unsafe_view)

# Elements of a constant whose values Inductor may write into the code.
_FEW = 8


@dataclass(frozen=True)
class ShortProgram:
    """A program with the first ``KEPT`` of its equal layers, and what is left out.

    Attributes:
        program: what is behind the last layer uses what the last one here makes.
        left_out: how many layers it lacks.
        constants: FQNs of what each layer has one of, by layer, with those that are left out.
        nodes: likewise, the nodes of the whole program.
        values: of all these constants, by FQN.
    """

    program: ExportedProgram
    left_out: int
    constants: tuple[tuple[str, ...], ...]
    nodes: tuple[tuple[Node, ...], ...] = field(repr=False)
    values: Mapping[str, Tensor] = field(repr=False)


def shortened(
    program: ExportedProgram, may_fold: bool, is_decomposed: Callable[[Node], bool]
) -> ShortProgram | None:
    """Leave layers out of a program that has many of them.

    Args:
        program: a partition after all passes; it stays as it is.
        may_fold: whether Inductor may look for constants that are one value throughout.
        is_decomposed: whether a node's op is taken apart before Inductor sees it.

    Returns:
        ``None`` where there are not ``LEAST`` equal layers in a row, or something behind them uses
        what others than the last of them make.
    """
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    layers = equal_layers(program)
    if layers is None or not all(is_in_memory(one, is_decomposed) for one in layers.handed_on):
        return None
    constants = tuple(
        tuple(str(specs[node.name].target) for node in chain) for chain in layers.constants
    )
    values = {fqn: value_of(program, fqn) for chain in constants for fqn in chain}
    known = {fqn: value for fqn, value in values.items() if value is not None}
    if len(known) < len(values) or not all(
        _alike([known[fqn] for fqn in chain], may_fold) for chain in constants
    ):
        return None
    short = _without(program, layers)
    if short is None:
        return None
    return ShortProgram(short, layers.left_out, constants, layers.nodes, known)


@dataclass(frozen=True)
class Layers:
    """Equal layers, each of which uses what the one before it made.

    Attributes:
        run: where they are among the nodes of the graph that compute.
        constants: placeholders of which each layer has one, by layer.
        nodes: those that compute, likewise. As constants, some have one more: behind the last whole
            layer may be a part of one.
        handed_on: what the second layer takes from the first.
    """

    run: Run
    constants: tuple[tuple[Node, ...], ...]
    nodes: tuple[tuple[Node, ...], ...]
    handed_on: tuple[Node, ...]

    @property
    def left_out(self) -> int:
        """How many more there are than ``KEPT``."""
        return self.run.count - KEPT


def equal_layers(program: ExportedProgram) -> Layers | None:
    """The layers of a program, if ``LEAST`` or more in a row are equal."""
    specs = program.graph_signature.input_specs
    kinds = {spec.arg.name: spec.kind for spec in specs if spec.kind in _CONSTANTS}
    graph = program.graph
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    places = {node: place for place, node in enumerate(nodes)}
    found = longest_run([_symbol(node, kinds) for node in nodes], LEAST)
    if found is None:
        return None
    period = found.period
    last = found.end + found.rest - period
    inputs = [_inputs(node) for node in nodes]

    def fit(a: Node, b: Node) -> bool:
        """Whether a layer may use one where the layer behind it uses the other."""
        if a is b:
            return True
        if a in places and b in places:
            return places[b] - places[a] == period
        return a.name in kinds and b.name in kinds

    fits = [
        all(map(fit, inputs[place], inputs[place + period])) for place in range(found.start, last)
    ]
    start, length = longest_true(torch.tensor(fits, dtype=torch.bool))
    run = run_of(found.start + start, period, length)
    if run.count < LEAST:
        return None
    end = run.start + length
    pairs = [
        pair
        for place in range(run.start, end)
        for pair in zip(inputs[place], inputs[place + period], strict=True)
    ]
    shared = {a for a, b in pairs if a is b}
    following = {a: b for a, b in pairs if a is not b and a.name in kinds}
    if any(b is not following.get(a, b) for a, b in pairs if a is not b):
        return None
    moving = {*following, *following.values()}
    if len(set(following.values())) < len(following) or moving & shared:
        return None
    if any(places.get(node, -1) >= run.start for node in shared):
        return None
    of_nodes = (
        tuple(nodes[place] for place in range(first, end + period, period))
        for first in range(run.start, run.start + period)
    )
    handed_on = tuple(dict.fromkeys(_handed_on(run, inputs, places)))
    return Layers(run, _chains(following), tuple(of_nodes), handed_on)


def _handed_on(
    run: Run, inputs: Sequence[Sequence[Node]], places: Mapping[Node, int]
) -> list[Node]:
    """What the second layer takes from the first."""
    second = range(run.start + run.period, run.start + 2 * run.period)
    first = range(run.start, second.start)
    return [one for at in second for one in inputs[at] if places.get(one) in first]


def is_in_memory(node: Node, is_decomposed: Callable[[Node], bool]) -> bool:
    """Whether a node's result is stored whatever uses it: Inductor knows nothing of the op.

    What it generates itself it may compute anew in the next layers, so that one is not like the
    other, unless all that uses it is the op that stores it (``stored_between.py``).
    """
    if all(user.target is torch.ops.aoti_plugins.stored.default for user in node.users):
        return True
    while node.target is operator.getitem or getattr(node.target, "overloadpacket", None) in _VIEWS:
        node = node.all_input_nodes[0]
    return not is_generated(node, is_decomposed)


def is_generated(node: Node, is_decomposed: Callable[[Node], bool]) -> bool:
    """Whether Inductor knows the op or its parts, and may compute it within another kernel."""
    namespace = getattr(node.target, "namespace", "aten")
    return namespace in ("aten", "prims", "dim_order_ops") or is_decomposed(node)


def _symbol(node: Node, kinds: Mapping[str, InputKind]) -> Hashable:
    """What a node computes, but for which inputs it has."""
    where = {one: str(kinds.get(one.name, one.op)) for one in node.all_input_nodes}
    own, given = _described(node), tuple(map(_described, node.all_input_nodes))
    return node.op, node.target, frozen([node.args, node.kwargs], where), given, own


def _described(node: Node) -> Hashable:
    return tuple(
        (one.dtype, str(one.size()), str(one.stride())) if isinstance(one, Tensor) else str(one)
        for one in pytree.tree_leaves(node.meta.get("val"))
    )


def _inputs(node: Node) -> list[Node]:
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return [one for one in leaves if isinstance(one, Node)]


def _chains(following: Mapping[Node, Node]) -> tuple[tuple[Node, ...], ...]:
    """What follows what, from those on that follow nothing."""
    behind = set(following.values())
    found = []
    for node in following:
        if node in behind:
            continue
        chain = [node]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        found.append(tuple(chain))
    return tuple(found)


def _alike(values: Sequence[Tensor], may_fold: bool) -> bool:
    """Whether code that is made with some of the values is right for all of them."""
    if values[0].numel() <= _FEW:
        return all(torch.equal(values[0], one) for one in values)
    if not may_fold:
        return True
    uniform = [_is_uniform(one) for one in values]
    firsts = [one.flatten()[:1] for one in values if any(uniform)]
    return not any(uniform) or (all(uniform) and all(torch.equal(firsts[0], one) for one in firsts))


def _is_uniform(value: Tensor) -> bool:
    """Whether all elements are equal; of most constants the first ones are not."""
    few = value[(0,) * (value.dim() - 1)]
    return bool((few == few[0]).all()) and bool((value == few[0]).all())


def _without(program: ExportedProgram, layers: Layers) -> ExportedProgram | None:
    """The program without layers; ``None`` if what is behind them uses more than the last one."""
    try:
        graph, output_specs = _short_graph(program, layers)
    except KeyError:  # a node that is left out
        return None
    placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
    written = {spec.target for spec in output_specs}
    input_specs = []
    for spec in program.graph_signature.input_specs:
        is_used = placeholders[spec.arg.name].users or spec.target in written
        if is_used or spec.kind not in _CONSTANTS:
            input_specs.append(spec)
        else:
            graph.erase_node(placeholders[spec.arg.name])
    graph.lint()
    short = copy.copy(program)
    short._graph_module = GraphModule(program.graph_module, graph)
    short._graph_signature = ExportGraphSignature(input_specs, output_specs)
    return short


def _short_graph(program: ExportedProgram, layers: Layers) -> tuple[Graph, list[OutputSpec]]:
    """The graph without layers, and what its outputs are.

    Raises:
        KeyError: a node behind the layers uses one that is left out.
    """
    left_out = {node for chain in layers.nodes for node in chain[KEPT : layers.run.count]}
    behind = _seen_from_behind(layers)
    graph = Graph()
    copies: dict[Node, Node] = {}
    is_behind = False
    for node in program.graph.nodes:
        if node in left_out:
            is_behind = True
        elif node.op != "output":
            seen = behind if is_behind else {}
            copies[node] = graph.node_copy(node, lambda one, seen=seen: copies[seen.get(one, one)])
            copies[node].name = node.name
    specs: list[OutputSpec] = []
    outputs: list[Any] = []
    places = _places_of_buffers(program, layers)
    values: Any = program.graph.output_node().args[0]
    for spec, value in zip(program.graph_signature.output_specs, values, strict=True):
        target, seen = spec.target, behind
        if spec.kind is OutputKind.BUFFER_MUTATION and spec.target in places:
            chain, place = places[spec.target]
            if KEPT <= place < layers.run.count:
                if value not in left_out:
                    raise KeyError(value)
                continue
            if place < KEPT:
                seen = {}
            else:
                target = chain[place - layers.left_out]
        one = copies[seen.get(value, value)] if isinstance(value, Node) else value
        argument = TensorArgument(one.name) if isinstance(spec.arg, TensorArgument) else spec.arg
        specs.append(OutputSpec(spec.kind, argument, target))
        outputs.append(one)
    graph.output(tuple(outputs))
    return graph, specs


def _seen_from_behind(layers: Layers) -> dict[Node, Any]:
    """What to use behind the layers in the place of a node or a constant of theirs.

    Of those that only one layer but the last has, nothing, which no copy is of.
    """
    count, left_out = layers.run.count, layers.left_out
    found: dict[Node, Any] = {}
    for chain in layers.nodes:
        found |= {
            node: chain[place - left_out] if place >= left_out else None
            for place, node in enumerate(chain[:count])
        }
    for chain in layers.constants:
        found |= {
            node: chain[place - left_out] if place >= left_out else None
            for place, node in enumerate(chain)
        }
    return found


def _places_of_buffers(
    program: ExportedProgram, layers: Layers
) -> dict[str, tuple[list[str], int]]:
    """The buffers of the same role, and which of them it is, by FQN."""
    targets = {spec.arg.name: str(spec.target) for spec in program.graph_signature.input_specs}
    chains = [[targets[node.name] for node in chain] for chain in layers.constants]
    return {fqn: (chain, place) for chain in chains for place, fqn in enumerate(chain)}
