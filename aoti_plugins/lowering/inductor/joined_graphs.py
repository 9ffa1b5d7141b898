"""Several graphs side by side in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree


def joined(parts: Sequence[tuple[GraphModule, Sequence[Any]]]) -> tuple[GraphModule, list[Any]]:
    """One graph of several that have nothing in common.

    Args:
        parts: each graph and its inputs. Tensors that a graph holds come along.

    Returns:
        A graph with the inputs of all in order, whose outputs are those of all in order; and the
        inputs.
    """
    graph, root = Graph(), nn.Module()
    copies: list[dict[Node, Node]] = [{} for _ in parts]
    for number, (module, _) in enumerate(parts):
        for node in _placeholders(module):
            copies[number][node] = graph.placeholder(f"part{number}_{node.name}")
            copies[number][node].meta = dict(node.meta)
    outputs: list[Any] = []
    for number, (module, _) in enumerate(parts):
        outputs += _copy(module, graph, copies[number], root, f"part{number}_")
    graph.output(tuple(outputs))
    return GraphModule(root, graph), [one for _, inputs in parts for one in inputs]


def _placeholders(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _copy(
    module: GraphModule, graph: Graph, copies: dict[Node, Node], root: nn.Module, prefix: str
) -> list[Any]:
    """Copy what comes after the placeholders; returns the outputs."""
    for node in module.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":
            copies[node].target = prefix + node.target.replace(".", "_")
            setattr(root, copies[node].target, _attribute(module, node.target))
    outputs = module.graph.output_node().args[0]
    return pytree.tree_leaves(torch.fx.map_arg(outputs, copies.__getitem__))


def num_outputs(module: GraphModule) -> int:
    """How many values a graph returns."""
    return len(pytree.tree_leaves(module.graph.output_node().args[0]))


def _attribute(module: nn.Module, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
