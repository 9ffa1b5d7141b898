"""Assertions about numbers go to the delegate that decides the numbers.

An assertion checks a truth value that is no tensor, which a delegate can compute but not return. So
both are left out when a program is divided, and then join the group of nodes that has what they
need. There they also bound the sizes that the group computes with. ExecuTorch drops assertions
that stay outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.fx import GraphModule, Node

from aoti_plugins.lowering.passes.edge_to_aten import aten_op

_aten = torch.ops.aten
_ASSERTIONS = frozenset(
    {
        _aten._assert_scalar.default,
        _aten.sym_constrain_range.default,
        _aten.sym_constrain_range_for_size.default,
    }
)


def is_assertion(node: Node) -> bool:
    """Whether a node only checks a truth value or the range of a number; it has no result."""
    return aten_op(node.target) in _ASSERTIONS


def is_decision(node: Node) -> bool:
    """Whether a node is an assertion, or computes a truth value that is no tensor."""
    is_truth_value = isinstance(node.meta.get("val"), bool | torch.SymBool)
    return node.op == "call_function" and (is_assertion(node) or is_truth_value)


def join(module: GraphModule, groups: Sequence[set[Node]]) -> None:
    """Add assertions, with the truth values that only they use, to groups of nodes of one graph.

    Args:
        module: the graph.
        groups: convex, and without decisions.
    """
    for decisions in _connected(module):
        needed = {one for node in decisions for one in node.all_input_nodes if one not in decisions}
        group = _group_with(needed, groups)
        if group is not None and not any(map(is_decision, needed)):
            group |= decisions


def put_first(module: GraphModule) -> None:
    """Put assertions, and the truth values they check, right behind what they are about.

    So their bounds are known of every size that is computed from a number. PyTorch before 2.13
    sorts the nodes of a partition by their distance from the inputs, and asks behind a slice how
    long it may be.
    """
    decisions = [node for node in module.graph.nodes if is_decision(node)]
    for node in decisions:
        _right_behind_inputs(node).append(node)
    if decisions:
        module.recompile()


def _right_behind_inputs(node: Node) -> Node:
    """The last of a decision's inputs, or of the decisions that already stand behind it."""
    behind = node.prev
    while behind not in node.all_input_nodes and behind.op not in ("placeholder", "root"):
        behind = behind.prev
    while is_decision(behind.next) and behind.next is not node:
        behind = behind.next
    return behind


def _connected(module: GraphModule) -> Iterator[set[Node]]:
    """Assertions with the truth values that serve nothing else; each set stands for itself."""
    left = {node for node in module.graph.nodes if is_decision(node)}
    for node in reversed(module.graph.nodes):
        if node in left and not is_assertion(node) and not left.issuperset(node.users):
            left.discard(node)
    for node in module.graph.nodes:
        if node in left:
            found = _neighbours(node, left)
            left -= found
            yield found


def _neighbours(node: Node, among: set[Node]) -> set[Node]:
    found: set[Node] = set()
    new = [node]
    while new:
        one = new.pop()
        if one in among and one not in found:
            found.add(one)
            new += [*one.users, *one.all_input_nodes]
    return found


def _group_with(needed: set[Node], groups: Sequence[set[Node]]) -> set[Node] | None:
    """The group that computes what is needed, or the first one that uses all of it anyway."""
    known = {node for node in needed if node.op != "placeholder"}
    at_hand = [group for group in groups if all(_has(group, node) for node in known)]
    return next((group for group in at_hand if known & group), next(iter(at_hand), None))


def _has(group: set[Node], node: Node) -> bool:
    return node in group or any(user in group for user in node.users)
