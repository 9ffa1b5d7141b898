"""Writes through ``unfold``, whose windows PyTorch puts back wrongly.

It makes a program functional by the inverse of each view. That of ``unfold`` adds up windows on
zeros: what lies in no window was lost, silently. Views that say the same are put back rightly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from aoti_plugins.errors import LoweringError

_aten = torch.ops.aten


def other_views_of_windows(modules: Iterable[GraphModule]) -> None:
    """Say those windows otherwise, in place, that a program's graphs write to.

    Args:
        modules: graphs before they are functional; nodes carry ``meta["val"]``.

    Raises:
        LoweringError: the last of several windows of more than one element ends where the tensor
            does, with gaps between them: no other views are the same.
    """
    for module in modules:
        for node in list(module.graph.find_nodes(op="call_function", target=_aten.unfold.default)):
            if _is_written(node):
                _say_otherwise(node)
        module.recompile()


def _is_written(view: Node) -> bool:
    for user in view.users:
        if not isinstance(user.target, OpOverload):
            continue
        given = zip(user.target._schema.arguments, user.args, strict=False)
        aliases = [one.alias_info for one, value in given if value is view and one.alias_info]
        if any(alias.is_write for alias in aliases) or (aliases and _is_written(user)):
            return True
    return False


def _say_otherwise(node: Node) -> None:
    x, dim, size, step = node.args
    assert isinstance(x, Node)
    length, dim = x.meta["val"].size(dim), dim % max(x.meta["val"].dim(), 1)
    if x.meta["val"].dim() == 0 or step < size:
        return  # one element, or windows that overlap, which PyTorch refuses to write to
    count = node.meta["val"].size(dim)
    steps: list[tuple[OpOverload, tuple[Any, ...]]]
    if size == 1:
        steps = [
            (_aten.slice.Tensor, (dim, 0, length, step)),
            (_aten.unsqueeze.default, (-1,)),
        ]
    elif count * step <= length:
        steps = [
            (_aten.slice.Tensor, (dim, 0, count * step)),
            (_aten.unflatten.int, (dim, [count, step])),
            (_aten.slice.Tensor, (dim + 1, 0, size)),
            (_aten.movedim.int, (dim + 1, -1)),
        ]
    else:
        raise LoweringError(
            f"the program writes to windows of unfold(dimension={dim}, size={size}, step={step}) "
            f"of a dimension of {length} elements, and PyTorch loses what lies between them; "
            f"unfold a tensor that was padded to {count * step} elements there, or write by index"
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
