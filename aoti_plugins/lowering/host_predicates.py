"""What stays on the host although a device could do it: deciding between branches.

ExecuTorch runs control flow, on the host, and reads the predicate there. Where a predicate is
computed from a few elements that are on the host anyway (a flag, a position, a counter), a device
would take them there, launch a kernel, copy one byte back and wait for it. Such nodes are left to
ExecuTorch's own kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch.fx import GraphModule, Node

from aoti_plugins.lowering.passes.edge_to_aten import aten_op

_aten = torch.ops.aten
_MOST_ELEMENTS = 16

# ExecuTorch has portable kernels for these.
PORTABLE_OPS = frozenset(
    {
        *(_aten.eq.Scalar, _aten.ne.Scalar, _aten.eq.Tensor, _aten.ne.Tensor),
        *(_aten.lt.Scalar, _aten.le.Scalar, _aten.lt.Tensor, _aten.le.Tensor),
        *(_aten.gt.Scalar, _aten.ge.Scalar, _aten.gt.Tensor, _aten.ge.Tensor),
        *(_aten.logical_and.default, _aten.logical_or.default, _aten.logical_not.default),
        *(_aten.logical_xor.default, _aten.bitwise_not.default),
        *(_aten.bitwise_and.Tensor, _aten.bitwise_or.Tensor, _aten.bitwise_xor.Tensor),
        *(_aten.add.Tensor, _aten.sub.Tensor, _aten.mul.Tensor, _aten.remainder.Scalar),
        *(_aten.any.default, _aten.select_copy.int, _aten.view_copy.default),
        *(_aten.squeeze_copy.dims, _aten.unsqueeze_copy.default),
    }
)
# What ATen programs have in their place; edge programs do not.
_ATEN_OPS = frozenset(
    {
        *(_aten.__and__.Tensor, _aten.__or__.Tensor, _aten.__xor__.Tensor),
        *(_aten.select.int, _aten.view.default, _aten.squeeze.dims, _aten.unsqueeze.default),
    }
)


def host_predicates(module: GraphModule, state: Collection[str] = ()) -> set[Node]:
    """Nodes of one graph that compute predicates of ``cond`` from what is on the host.

    Args:
        module: one graph of a program, in the ATen or the edge dialect.
        state: names of inputs that the program writes to. They belong to a delegate, since
            ExecuTorch keeps no first value of them.

    Returns:
        The nodes to leave outside; a predicate that needs anything else is not among them, nor
        is what it needs.
    """
    found: set[Node] = set()
    for predicate in _predicates(module):
        needed = _from_inputs(predicate, state)
        if needed is not None:
            found |= needed
    return found


def _predicates(module: GraphModule) -> Iterator[Node]:
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.higher_order.cond:
            predicate = node.args[0]
            if isinstance(predicate, Node):
                yield predicate


def _from_inputs(predicate: Node, state: Collection[str]) -> set[Node] | None:
    """Everything between the graph's inputs and a node; ``None`` if some of it is real work."""
    found: set[Node] = set()
    left = [predicate]
    while left:
        node = left.pop()
        if node in found or (node.op in ("placeholder", "get_attr") and node.name not in state):
            continue
        if node.op != "call_function" or not _is_portable(node) or not _is_small(node):
            return None
        found.add(node)
        left += node.all_input_nodes
    return found


def _is_portable(node: Node) -> bool:
    return aten_op(node.target) in PORTABLE_OPS or node.target in _ATEN_OPS


def _is_small(node: Node) -> bool:
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return all(
        isinstance(value, torch.Tensor)
        and all(isinstance(size, int) for size in value.size())
        and value.numel() <= _MOST_ELEMENTS
        for value in values
    )
