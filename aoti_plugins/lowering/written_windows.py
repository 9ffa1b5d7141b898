"""Writes through ``unfold``, whose windows PyTorch puts back wrongly.

It makes a program functional by the inverse of each view. That of ``unfold`` adds up windows on
zeros: what lies in no window was lost, silently. Views that say the same are put back rightly.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from aoti_plugins.errors import LoweringError

_aten = torch.ops.aten


def other_views_of_windows(modules: Iterable[GraphModule]) -> None:
    """Say those windows otherwise, in place, that a program's graphs write to.

    Args:
        modules: graphs before they are functional; nodes carry ``meta["val"]``.

    Raises:
        LoweringError: no other views are the same: the last of several windows of more than one
            element ends where the tensor does, with gaps between them, or its size is dynamic.
    """
    for module in modules:
        found = module.graph.find_nodes(op="call_function", target=_aten.unfold.default)
        written = [node for node in found if _is_written(node)]
        for node in written:
            _say_otherwise(node)
        if written:
            module.recompile()


def _is_written(view: Node) -> bool:
    return any(_writes(user, view) for user in view.users)


def _writes(user: Node, view: Node) -> bool:
    """Whether a node writes to a view, or gives another of it that is written to."""
    if user.target is operator.getitem:  # one of several views
        return _is_written(user)
    if not isinstance(user.target, OpOverload):
        return False
    arguments = user.target._schema.arguments
    given = {one.name: value for one, value in zip(arguments, user.args, strict=False)}
    given |= user.kwargs
    aliases = [
        one.alias_info
        for one in arguments
        if one.alias_info is not None and view in pytree.tree_leaves(given.get(one.name))
    ]
    return any(alias.is_write for alias in aliases) or (bool(aliases) and _is_written(user))


def _say_otherwise(node: Node) -> None:
    x, dim, size, step = node.args
    assert isinstance(x, Node)
    if x.meta["val"].dim() == 0 or step < size:
        return  # one element, or windows that overlap, which PyTorch refuses to write to
    dim = dim % x.meta["val"].dim()
    length, count = x.meta["val"].size(dim), node.meta["val"].size(dim)
    steps: list[tuple[OpOverload, tuple[Any, ...]]]
    if size == 1:
        steps = [
            (_aten.slice.Tensor, (dim, 0, sys.maxsize, step)),
            (_aten.unsqueeze.default, (-1,)),
        ]
    elif isinstance(length, int) and count * step <= length:
        steps = [
            (_aten.slice.Tensor, (dim, 0, count * step)),
            (_aten.unflatten.int, (dim, [count, step])),
            (_aten.slice.Tensor, (dim + 1, 0, size)),
            (_aten.movedim.int, (dim + 1, -1)),
        ]
    else:
        static = isinstance(length, int)
        where = f"a dimension of {length} elements" if static else "a dimension of a dynamic size"
        padded = f"{count * step} elements" if static else "a known number of elements"
        raise LoweringError(
            f"the program writes to windows of unfold(dimension={dim}, size={size}, step={step}) "
            f"of {where}, and PyTorch loses what lies between them; unfold a tensor that was "
            f"padded to {padded} there, or write by index"
        )
    found = x
    with node.graph.inserting_before(node):
        for op, arguments in steps:
            found = node.graph.call_function(op, (found, *arguments))
            found.meta = {**node.meta, "val": _computed(op, found.args)}
    node.replace_all_uses_with(found)
    node.graph.erase_node(node)


def _computed(op: OpOverload, arguments: tuple[Any, ...]) -> Tensor:
    x, *rest = arguments
    value = x.meta["val"]
    mode = torch._guards.detect_fake_mode([value])
    assert mode is not None
    with mode, torch.no_grad():
        result: Tensor = op(value, *rest)
    return result
