"""Routers of experts: softmax, the largest shares and what these are divided by become one op."""

from __future__ import annotations

import operator

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.chosen_experts  # noqa: F401  it defines the op
from aoti_plugins.cuda.chosen_experts import MOST_CHOSEN, MOST_SCORES
from aoti_plugins.lowering.added_nodes import comes_from

_aten = torch.ops.aten
_LAST = (-1, 1)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def routers(program: ExportedProgram) -> None:
    """Replace ``topk`` of a softmax over few scores, in place; expects ATen ops.

    In the outermost graph, if nothing else reads the softmax. Where all shares are divided by their
    sum, this is of the op as well.
    """
    for node in list(program.graph.nodes):
        scores = _scores(node)
        if scores is not None:
            _replace(program, node, scores)
    program.graph.eliminate_dead_code()


def _scores(node: Node) -> Node | None:
    """The scores ``[m, count]`` of whose softmax, in float32, a node takes the largest shares."""
    if node.target is not _aten.topk.default or node.kwargs:
        return None
    softmax, chosen, *rest = node.args
    if not isinstance(softmax, Node) or len(softmax.users) > 1 or not isinstance(chosen, int):
        return None
    if rest and (rest[0] not in _LAST or rest[1:2] == [False]):
        return None
    if softmax.target is not _aten.softmax.int or softmax.args[1] not in _LAST:
        return None
    scores, value = softmax.args[0], softmax.meta["val"]
    if value.dtype != torch.float32 or scores.meta["val"].dtype not in _FLOATS or value.dim() != 2:
        return None
    count = value.size(1)
    fits = isinstance(count, int) and count <= MOST_SCORES and 0 < chosen <= MOST_CHOSEN
    return scores if fits else None


def _replace(program: ExportedProgram, node: Node, scores: Node) -> None:
    graph, op = program.graph, torch.ops.aoti_plugins.chosen_experts.default
    parts = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    divided = _divided(parts.get(0))
    with graph.inserting_before(node):
        found = graph.call_function(op, (scores, node.args[1], divided is not None))
        found.meta["val"] = node.meta["val"]
        values = [graph.call_function(operator.getitem, (found, i)) for i in range(2)]
    comes_from(found, node.args[0], node, *([divided] if divided is not None else []))
    for value, fake in zip(values, node.meta["val"], strict=True):
        value.meta["val"] = fake
    for i, part in parts.items():
        last = divided if i == 0 and divided is not None else part
        last.replace_all_uses_with(values[i])


def _divided(shares: Node | None) -> Node | None:
    """Shares divided by their sum, if nothing else reads them."""
    if shares is None or len(shares.users) != 2:
        return None
    total = next((user for user in shares.users if _is_total(user)), None)
    quotient = next((user for user in shares.users if user.target is _aten.div.Tensor), None)
    if total is None or quotient is None or quotient.args != (shares, total) or quotient.kwargs:
        return None
    return quotient if len(total.users) == 1 else None


def _is_total(node: Node) -> bool:
    if node.target is not _aten.sum.dim_IntList or node.kwargs or len(node.args) != 3:
        return False
    return node.args[1] in ([-1], [1]) and node.args[2] is True
