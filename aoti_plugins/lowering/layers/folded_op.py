"""The op that stands for layers in ExecuTorch's passes, and what it stands for."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.carried_ops import take_all_dtypes

LIFTED = "_lifted_tensor_constant"
"""How names begin of constants that ExecuTorch makes of numbers."""

_SCHEMA = "(Tensor[] inputs, str name, str results, str layers) -> Tensor[]"
_NAMESPACE = "aoti_plugins_layers"


@dataclass(frozen=True)
class Weights:
    """Parameters of a program that only layers use, which ExecuTorch does not see.

    Attributes:
        fqns: by the names of placeholders.
        values: the same.
        order: of all placeholders of the program.
    """

    fqns: Mapping[str, str]
    values: Mapping[str, Tensor]
    order: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Folded:
    """What layers that are equal have become.

    Attributes:
        graph: of one of them as an edge program.
        path: of the module that this one was.
        inputs: of the layer, by the names of the graph's placeholders.
        constants: of other placeholders, by their names.
        weights: of all layers of the program.
    """

    graph: Graph
    path: str
    inputs: Mapping[str, int]
    constants: Mapping[str, Tensor]
    weights: Weights


@dataclass(frozen=True)
class FoldedLayer:
    """One of the layers that an op stands for.

    Attributes:
        path: of its module.
        inputs: a node, the name of a weight, or the number of an earlier layer of the op and of one
            of its results.
    """

    path: str
    inputs: Sequence[Node | str | tuple[int, int]]


_numbers = itertools.count()
_known: WeakValueDictionary[str, Folded] = WeakValueDictionary()


def registered(folded: Folded) -> str:
    """A name by which ops say what they stand for, as long as somebody holds it."""
    name = f"layer {next(_numbers)}"
    _known[name] = folded
    return name


def folded_of(node: Node) -> Folded:
    """What a node stands for.

    Raises:
        LoweringError: the partitioner that put it there is gone.
    """
    name = node.args[1]
    folded = _known.get(str(name))
    if folded is None:
        raise LoweringError(
            f"what node {node.name!r} stands for is not known: lower in the process, and with the "
            "partitioner, that made the edge program"
        )
    return folded


def layers_of(node: Node) -> list[FoldedLayer]:
    """The layers that a node stands for, one after the other."""
    nodes: Any = node.args[0]

    def given(one: Any) -> Node | str | tuple[int, int]:
        if isinstance(one, int):
            found: Node = nodes[one]
            return found
        return one if isinstance(one, str) else (one[0], one[1])

    layers = json.loads(str(node.args[3]))["layers"]
    return [FoldedLayer(path, [given(one) for one in inputs]) for path, inputs in layers]


def results_of(node: Node) -> list[tuple[int, int]]:
    """Of each result of a node the layer that it is of, and which of that one's."""
    return [(layer, place) for layer, place in json.loads(str(node.args[3]))["results"]]


def call(
    graph: Graph,
    layers: Sequence[FoldedLayer],
    name: str,
    results: Sequence[tuple[int, int]],
    values: Sequence[Tensor],
) -> Node:
    """Add an op that stands for layers where the graph inserts.

    Args:
        graph: of an ATen program.
        layers: in their order.
        name: what ``registered`` gave.
        results: as ``results_of``.
        values: fake tensors of the results.
    """
    inputs = [one for layer in layers for one in layer.inputs]
    nodes = list(dict.fromkeys(one for one in inputs if isinstance(one, Node)))
    places = {one: place for place, one in enumerate(nodes)}
    described = [
        (layer.path, [places[one] if isinstance(one, Node) else one for one in layer.inputs])
        for layer in layers
    ]
    text = json.dumps({"layers": described, "results": list(results)})
    node = graph.call_function(op(), (nodes, name, _described(values), text))
    node.meta["val"] = list(values)
    return node


def is_folded(node: Node) -> bool:
    """Whether a node of an ATen or an edge program stands for layers."""
    target = node.target
    found = target._op if isinstance(target, EdgeOpOverload) else target
    return isinstance(found, OpOverload) and found.namespace == _NAMESPACE


@functools.cache
def op() -> OpOverload:
    """The op: tensors, its name, its results and the layers. Nobody runs it."""
    library = _library()
    library.define(f"layer{_SCHEMA}")
    torch.library.register_fake(f"{_NAMESPACE}::layer", _results, lib=library)
    found: OpOverload = torch.ops.aoti_plugins_layers.layer.default
    take_all_dtypes(found)
    return found


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library(_NAMESPACE, "FRAGMENT")


def _described(results: Sequence[Tensor]) -> str:
    return json.dumps(
        [(str(one.dtype).rpartition(".")[2], [*one.size()], [*one.stride()]) for one in results]
    )


def _results(inputs: list[Tensor], name: str, results: str, layers: str) -> list[Tensor]:
    del name, layers
    return [
        torch.empty_strided(size, stride, dtype=getattr(torch, dtype), device=inputs[0].device)
        for dtype, size, stride in _parsed(results)
    ]


@functools.lru_cache(maxsize=64)
def _parsed(results: str) -> list[Any]:
    found: list[Any] = json.loads(results)
    return found
