"""Find the heads that a model repeated so that every query head has its own.

Models with grouped queries often write ``x[:, :, None].expand(b, h, n, s, d).reshape(b, h * n, s,
d)`` or ``x.repeat_interleave(n, dim=1)``: n copies of keys and values in memory. The attention
kernels read shared heads once, so they are given ``x``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.passes.same_elements import is_copy, is_reshape

_aten = torch.ops.aten
_EXPANDS = (_aten.expand.default, _aten.expand_copy.default)
_INTERLEAVES = (_aten.repeat_interleave.self_int,)
_UNSQUEEZES = (_aten.unsqueeze.default, _aten.unsqueeze_copy.default)
_SLICES = (_aten.slice.Tensor, _aten.slice_copy.Tensor)


@dataclass(frozen=True)
class Shared:
    """Heads as they were before they were repeated.

    Attributes:
        node: ``[batch, heads, rows, elements]``.
        times: how many times each head was repeated, next to each other.
    """

    node: Node
    times: int


def without_repeats(node: Node) -> Shared | None:
    """What a node repeats along its heads.

    Args:
        node: ``[batch, heads * times, rows, elements]``.

    Returns:
        ``None`` if it repeats nothing, or in a way that is not known here.
    """
    node = _skip_copies(node)
    if _calls(node, _EXPANDS):
        return _of_one_head(node)
    if _calls(node, _INTERLEAVES):
        return _of_interleaved(node)
    if not is_reshape(node):
        return None
    return _of_reshaped(node)


def _of_interleaved(node: Node) -> Shared | None:
    arguments = dict(zip(("self", "repeats", "dim"), node.args, strict=False)) | node.kwargs
    shared, times, dim = arguments["self"], arguments["repeats"], arguments.get("dim")
    if len(_shape(shared)) != 4 or dim not in (1, -3) or not isinstance(times, int):
        return None
    return Shared(shared, times) if times > 1 else None


def _of_one_head(expand: Node) -> Shared | None:
    before, after = _shape(expand.args[0]), _shape(expand)
    if len(before) != 4 or len(after) != 4 or before[1] != 1 or not isinstance(after[1], int):
        return None
    same = _same(before[2:], after[2:]) and _same(before[:1], after[:1])
    return Shared(expand.args[0], after[1]) if same and after[1] > 1 else None


def _of_reshaped(reshape: Node) -> Shared | None:
    expand = _skip_copies(reshape.args[0])
    if not _calls(expand, _EXPANDS):
        return None
    unsqueeze = _skip_copies(expand.args[0])
    if not _calls(unsqueeze, _UNSQUEEZES):
        return None
    shared = unsqueeze.args[0]
    before, between, after = _shape(shared), _shape(expand), _shape(reshape)
    if len(before) != 4 or len(between) != 5 or len(after) != 4:
        return None
    batch, heads, rows, elements = before
    times = between[2]
    if unsqueeze.args[1] not in (2, -3) or not all(isinstance(n, int) for n in (heads, times)):
        return None
    fits = _same(between, (batch, heads, times, rows, elements)) and _same(
        after, (batch, heads * times, rows, elements)
    )
    return Shared(shared, times) if fits else None


def _skip_copies(node: Any) -> Any:
    """The node before copies that change no element, and slices that take everything."""
    while is_copy(node) or (_calls(node, _SLICES) and _same(_shape(node), _shape(node.args[0]))):
        node = node.args[0]
    return node


def _calls(node: Any, ops: tuple[Any, ...]) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and aten_op(node.target) in ops


def _shape(node: Any) -> tuple[Any, ...]:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(
        statically_known_true(a == b) for a, b in zip(one, other, strict=True)
    )
