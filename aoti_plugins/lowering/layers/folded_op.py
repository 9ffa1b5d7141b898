"""The op that stands for a layer in ExecuTorch's passes, and what it stands for."""

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

_SCHEMA = "(Tensor[] inputs, str name, str results, str path, str weights) -> Tensor[]"
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
        graph: of one of them as an edge program; its output are the results of the op.
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


def path_of(node: Node) -> str:
    """Of the module that a node stands for."""
    return str(node.args[3])


def inputs_of(node: Node) -> list[Node | str]:
    """The layer's inputs: nodes, and names of weights."""
    nodes: Any = node.args[0]
    names: list[str] = json.loads(str(node.args[4]))
    given = iter(nodes)
    return [name or next(given) for name in names]


def call(
    graph: Graph, inputs: Sequence[Node | str], name: str, results: Sequence[Tensor], path: str
) -> Node:
    """Add an op that stands for a layer where the graph inserts.

    Args:
        graph: of an ATen program.
        inputs: of the layer: nodes, and names of weights.
        name: what ``registered`` gave.
        results: fake tensors of its results.
        path: of its module.
    """
    nodes = [one for one in inputs if isinstance(one, Node)]
    names = json.dumps([one if isinstance(one, str) else "" for one in inputs])
    node = graph.call_function(op(), (nodes, name, _described(results), path, names))
    node.meta["val"] = list(results)
    return node


def is_folded(node: Node) -> bool:
    """Whether a node of an ATen or an edge program stands for a layer."""
    target = node.target
    found = target._op if isinstance(target, EdgeOpOverload) else target
    return isinstance(found, OpOverload) and found.namespace == _NAMESPACE


@functools.cache
def op() -> OpOverload:
    """The op: tensors, its name, its results and the module's path. Nobody runs it."""
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


def _results(
    inputs: list[Tensor], name: str, results: str, path: str, weights: str
) -> list[Tensor]:
    del name, path, weights
    return [
        torch.empty_strided(size, stride, dtype=getattr(torch, dtype), device=inputs[0].device)
        for dtype, size, stride in _parsed(results)
    ]


@functools.lru_cache(maxsize=64)
def _parsed(results: str) -> list[Any]:
    found: list[Any] = json.loads(results)
    return found
