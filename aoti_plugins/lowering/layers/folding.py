"""Puts ops in the place of a program's equal layers, one for all that follow on each other.

One of the layers goes through ExecuTorch's passes as a program of its own. What becomes of it is
what the op stands for.
"""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from aoti_plugins.errors import AotiPluginsError
from aoti_plugins.lowering.inductor.no_triton import no_launch_in_decompositions
from aoti_plugins.lowering.layers import folded_op
from aoti_plugins.lowering.layers.folded_op import LIFTED, Folded, FoldedLayer, Weights
from aoti_plugins.lowering.layers.repeated import Layer, equal_layers, is_fixed_tensor
from aoti_plugins.lowering.origins import share_histories

if TYPE_CHECKING:
    import torch
    from executorch.exir import EdgeCompileConfig

logger = logging.getLogger(__name__)

_PLACE = ("nn_module_stack", "stack_trace")
_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class Asked:
    """What is asked about one layer while ExecuTorch makes an edge program of it.

    Attributes:
        ops_to_keep_whole: of an ATen program.
        takes_all: whether a delegate takes all of an edge program.
    """

    ops_to_keep_whole: Callable[[ExportedProgram], list[torch._ops.OpOverload]]
    takes_all: Callable[[ExportedProgram], bool]


@dataclass(frozen=True)
class _Made:
    """What ExecuTorch makes of one layer.

    Attributes:
        graph: the layer as an edge program.
        path: of its module.
        places: of the graph's placeholders among the layer's inputs, by name.
        constants: of other placeholders, by name.
        written: which of the layer's inputs each result is written to; ``None``: to none.
        results: fake tensors.
    """

    graph: Graph
    path: str
    places: Mapping[str, int]
    constants: Mapping[str, Tensor]
    written: Sequence[int | None]
    results: Sequence[Tensor]

    @property
    def inputs(self) -> list[int]:
        """Which of the layer's inputs the graph takes."""
        return sorted(self.places.values())

    def folded(self, weights: Weights) -> Folded:
        """What an op stands for."""
        inputs = {name: self.inputs.index(place) for name, place in self.places.items()}
        return Folded(self.graph, self.path, inputs, self.constants, weights)


def fold(
    program: ExportedProgram, asked: Asked, config: EdgeCompileConfig
) -> tuple[ExportedProgram, list[Folded]]:
    """The program with ops for its equal layers.

    Args:
        program: an ATen program, of which a trace takes nothing apart before ExecuTorch's own.
        asked: what is asked about a layer.
        config: how edge programs are made.

    Returns:
        A program, which is the same one where there are no equal layers or a delegate does not take
        all of one; and what its ops stand for, which has to be held until it is lowered.
    """
    groups = _groups(program)
    if any(_has_parts(node) for group in groups for layer in group for node in layer.inputs):
        with no_launch_in_decompositions():
            program = program.run_decompositions({})
        share_histories(program)
        groups = _groups(program)
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    found = []
    for group in groups:
        if all(specs[node.name].kind is InputKind.BUFFER for node in group[0].written):
            made = _made(program, group[0], specs, asked, config)
            found += [(group, made)] if made is not None else []
    if not found:
        return program, []
    return _with_ops(program, found)


def _groups(program: ExportedProgram) -> list[list[Layer]]:
    """An argument of the program is like what another layer gives."""
    specs = program.graph_signature.input_specs
    constants = {spec.arg.name: spec.kind for spec in specs if spec.kind in _CONSTANTS}
    return equal_layers(program.graph, constants)


def _has_parts(node: Node) -> bool:
    """Whether a weight is one of torchao's, which ExecuTorch's first trace takes apart."""
    return is_traceable_wrapper_subclass(node.meta["val"])


def _made(
    program: ExportedProgram,
    layer: Layer,
    specs: Mapping[str, InputSpec],
    asked: Asked,
    config: EdgeCompileConfig,
) -> _Made | None:
    """What becomes of a layer; ``None`` where it cannot be an op."""
    asker = _Asker(asked)
    try:
        edge = to_edge_transform_and_lower(
            _program_of(program, layer, specs),
            partitioner=[asker],
            compile_config=copy.copy(config),
        ).exported_program()
    except AotiPluginsError:
        raise
    except Exception:  # what ExecuTorch refuses, it refuses in the whole program, too
        logger.debug("%s by itself is no edge program", layer.path, exc_info=True)
        return None
    results: Any = edge.graph.output_node().args[0]
    is_call = (isinstance(one, Node) and one.op == "call_function" for one in results)
    if not asker.takes_all or not all(is_call) or not all(map(is_fixed_tensor, results)):
        return None
    places = _places_of_inputs(edge, layer, specs)
    used = {n.name for n in edge.graph.nodes if n.op == "placeholder" and n.users}
    made = {
        spec.arg.name: str(spec.target)
        for spec in edge.graph_signature.input_specs
        if spec.arg.name in used - places.keys()
    }
    if not all(fqn.startswith(LIFTED) for fqn in made.values()):
        return None
    buffers = {
        specs[node.name].target: place
        for place, node in enumerate(layer.inputs)
        if node.name in specs
    }
    written = [
        buffers[spec.target] if spec.kind is OutputKind.BUFFER_MUTATION else None
        for spec in edge.graph_signature.output_specs
    ]
    return _Made(
        edge.graph,
        layer.path,
        {name: place for name, place in places.items() if name in used},
        {name: edge.state_dict[fqn] for name, fqn in made.items()},
        written,
        [one.meta["val"] for one in results],
    )


class _Asker(Partitioner):
    """Asks about the ops of one layer, and delegates nothing."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked
        self.takes_all = False

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """As for the whole program; of the edge program nothing is asked."""
        return ([] if ep.dialect == "EDGE" else self._asked.ops_to_keep_whole(ep)), None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag nothing."""
        self.takes_all = self._asked.takes_all(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags={})


def _program_of(
    program: ExportedProgram, layer: Layer, specs: Mapping[str, InputSpec]
) -> ExportedProgram:
    """One layer as an ATen program: weights and buffers are its own, the rest its arguments."""
    graph = Graph()
    inputs = sorted(layer.inputs, key=lambda node: _order(node, specs))
    nodes = {}
    for node in inputs:
        nodes[node] = graph.placeholder(node.name)
        nodes[node].name = node.name  # else one like ``input`` gets another name
        nodes[node].meta = dict(node.meta)
    for node in layer.nodes:
        nodes[node] = graph.node_copy(node, nodes.__getitem__)
    outputs = tuple(nodes[node] for node in layer.outputs)
    graph.output(outputs)
    arguments = [node for node in inputs if _order(node, specs) == len(_CONSTANTS)]
    signature = ExportGraphSignature(
        [
            copy.deepcopy(specs[node.name])
            if _order(node, specs) < len(_CONSTANTS)
            else InputSpec(InputKind.USER_INPUT, TensorArgument(nodes[node].name), None)
            for node in inputs
        ],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(one.name), None) for one in outputs],
    )
    call = ModuleCallSignature(
        inputs=[],
        outputs=[],
        in_spec=pytree.tree_structure((tuple(arguments), {})),
        out_spec=pytree.tree_structure(outputs),
        forward_arg_names=[nodes[node].name for node in arguments],
    )
    own = {str(spec.target) for spec in signature.input_specs}
    return ExportedProgram(
        root=GraphModule({}, graph),
        graph=graph,
        graph_signature=signature,
        state_dict={fqn: value for fqn, value in program.state_dict.items() if fqn in own},
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", call)],
        example_inputs=None,
        constants={fqn: value for fqn, value in program.constants.items() if fqn in own},
        verifiers=program.verifiers,
    )


def _order(node: Node, specs: Mapping[str, InputSpec]) -> int:
    """Parameters come first, then buffers and constants, then arguments."""
    kind = specs[node.name].kind if node.op == "placeholder" else None
    return _CONSTANTS.index(kind) if kind in _CONSTANTS else len(_CONSTANTS)


def _places_of_inputs(
    edge: ExportedProgram, layer: Layer, specs: Mapping[str, InputSpec]
) -> dict[str, int]:
    """Where the placeholders of an edge program are among the layer's inputs, by name."""
    by_fqn = {
        (specs[node.name].kind, specs[node.name].target): index
        for index, node in enumerate(layer.inputs)
        if _order(node, specs) < len(_CONSTANTS)
    }
    rest: Iterator[int] = (
        index for index, node in enumerate(layer.inputs) if _order(node, specs) == len(_CONSTANTS)
    )
    places = {}
    for spec in edge.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            places[spec.arg.name] = next(rest)
        elif (spec.kind, spec.target) in by_fqn:
            places[spec.arg.name] = by_fqn[spec.kind, spec.target]
    return places


def _with_ops(
    program: ExportedProgram, found: Sequence[tuple[Sequence[Layer], _Made]]
) -> tuple[ExportedProgram, list[Folded]]:
    graph = Graph()
    copies: dict[Node, Node] = {}
    graph.graph_copy(program.graph, copies)
    for node, its_copy in copies.items():
        its_copy.name = node.name
    old: Any = program.graph.output_node().args[0]
    signature = copy.deepcopy(program.graph_signature)
    weights = _weights(program, [layer for group, _ in found for layer in group])
    folded = [made.folded(weights) for _, made in found]
    written: dict[str, Node] = {}
    for (group, made), one in zip(found, folded, strict=True):
        name = folded_op.registered(one)
        for layers in _in_rows(group):
            written |= _replace(graph, layers, made, weights, name, copies)
    for name in weights.fqns:
        graph.erase_node(next(iter(graph.find_nodes(op="placeholder", target=name))))
    signature.input_specs = [s for s in signature.input_specs if s.arg.name not in weights.fqns]
    order = [spec for spec in signature.input_specs if spec.arg.name in written]
    new = [
        OutputSpec(
            OutputKind.BUFFER_MUTATION, TensorArgument(written[spec.arg.name].name), spec.target
        )
        for spec in order
    ]
    results = pytree.tree_map_only(Node, copies.__getitem__, old)
    graph.output((*(written[spec.arg.name] for spec in order), *results))
    specs = [
        OutputSpec(spec.kind, _renamed(spec.arg, copies, node), spec.target)
        for spec, node in zip(signature.output_specs, old, strict=True)
    ]
    signature.output_specs = [*new, *specs]
    graph.lint()
    with_ops = ExportedProgram(
        root=GraphModule(program.graph_module, graph),
        graph=graph,
        graph_signature=signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=copy.deepcopy(program.module_call_graph),
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )
    return with_ops, folded


def _weights(program: ExportedProgram, layers: Sequence[Layer]) -> Weights:
    """Parameters that only layers use, and that ExecuTorch would leave as they are laid out."""
    within = {node for layer in layers for node in layer.nodes}
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    fqns = {
        spec.arg.name: str(spec.target)
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.PARAMETER
        and program.state_dict[str(spec.target)].is_contiguous()
        and placeholders[spec.arg.name].users
        and all(user in within for user in placeholders[spec.arg.name].users)
    }
    values = {name: program.state_dict[fqn] for name, fqn in fqns.items()}
    return Weights(fqns, values, {name: place for place, name in enumerate(placeholders)})


def _renamed(argument: Any, copies: Mapping[Node, Node], node: Any) -> Any:
    """What an output is called that may be the result of an op now."""
    return TensorArgument(copies[node].name) if isinstance(argument, TensorArgument) else argument


def _in_rows(group: Sequence[Layer]) -> list[list[Layer]]:
    """Equal layers by rows in which what one makes is for the next one alone."""
    rows: list[list[Layer]] = []
    for layer in group:
        before = rows[-1][-1].outputs if rows else ()
        if rows and all(user in layer.nodes for node in before for user in node.users):
            rows[-1].append(layer)
        else:
            rows.append([layer])
    return rows


def _replace(
    graph: Graph,
    layers: Sequence[Layer],
    made: _Made,
    weights: Weights,
    name: str,
    copies: dict[Node, Node],
) -> dict[str, Node]:
    """Put the op in the place of a row of layers; what it writes, by the names of placeholders."""
    last = layers[-1].nodes[-1]
    originals = [copies[node] for layer in layers for node in layer.nodes]
    known: dict[Node, Node | str | tuple[int, int]] = {}
    folded: list[FoldedLayer] = []
    found: list[tuple[int, int]] = []  # the op's results
    for number, layer in enumerate(layers):
        for node in (layer.inputs[place] for place in made.inputs):
            known.setdefault(node, node.name if node.name in weights.fqns else copies[node])
        folded.append(FoldedLayer(layer.path, [known[layer.inputs[p]] for p in made.inputs]))
        outputs = iter(layer.outputs)
        for index, place in enumerate(made.written):
            if place is None:
                known[next(outputs)] = (number, index)
            if place is not None or layer is layers[-1]:
                found.append((number, index))
    with graph.inserting_after(copies[last]):
        op = folded_op.call(graph, folded, name, found, [made.results[i] for _, i in found])
    op.meta |= {key: last.meta[key] for key in _PLACE if key in last.meta}
    written = {}
    outputs = iter(layers[-1].outputs)
    after = op
    for item, (number, index) in enumerate(found):
        with graph.inserting_after(after):
            after = graph.call_function(operator.getitem, (op, item))
        after.meta = {**op.meta, "val": made.results[index]}
        place = made.written[index]
        if place is not None:
            written[layers[number].inputs[place].name] = after
            continue
        node = next(outputs)
        copies[node].replace_all_uses_with(after)
        copies[node] = after
    for node in reversed(originals):
        graph.erase_node(node)
    return written
