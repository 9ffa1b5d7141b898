"""Attention of one token over a cache takes in the rotation and the writing of the cache.

Without it a token takes half a dozen kernels for that in each layer, which read all that the cache
could hold.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch._higher_order_ops.auto_functionalize import auto_functionalized
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.passes.around_linears import either, norm_of
from aoti_plugins.cuda.token_attention import HEAD_DIMS, attended_range, token_attention
from aoti_plugins.lowering.added_nodes import comes_from
from aoti_plugins.lowering.passes.attention import (
    Attention,
    read_attention,
    replace_attention,
    tensor_of,
    with_shared_heads,
)
from aoti_plugins.lowering.passes.same_elements import is_copy

_aten = torch.ops.aten
_DTYPES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class _Rotated:
    """``x * cos + cat((-x[d / 2:], x[:d / 2])) * sin``, of a norm of ``x`` if there are factors."""

    x: Node
    cos: Node
    sin: Node
    norm: Node | None = None
    epsilon: float = 0.0


@dataclass(frozen=True)
class _Written:
    """A buffer, the row that is written to it, and where; ``node`` is the buffer afterwards."""

    node: Node
    buffer: Node
    position: Node
    row: Node


@dataclass(frozen=True)
class _Found:
    """An attention over two buffers that are written to for it alone."""

    query: _Rotated
    key: _Rotated
    keys: _Written
    values: _Written
    mask: Node | None
    scale: float


def token_attentions(program: ExportedProgram) -> None:
    """Replace attention of one token by ``aoti_plugins::token_attention``, in place.

    In the outermost graph: one query of 16-bit floats, heads of 64 or 128 elements, batches of one,
    a mask of bool that is the same for all heads, keys and values in buffers that the program
    writes to at one position, query and key rotated by the same angles.
    """
    ranges: dict[Node, Node] = {}
    for node in list(program.graph.nodes):
        attention = read_attention(node)
        found = None if attention is None else _found(program, attention)
        if found is not None:
            _replace(program, node, found, _range(program, found.mask, ranges))
    program.graph.eliminate_dead_code()


def _found(program: ExportedProgram, attention: Attention) -> _Found | None:
    attention = with_shared_heads(attention)
    query = tensor_of(attention.query)
    if attention.causal or query.dtype not in _DTYPES or not _is_one_token(query.shape):
        return None
    keys = _written(program, attention.key)
    values = _written(program, attention.value)
    if keys is None or values is None or keys.position is not values.position:
        return None
    query_row, key_row = _rotated(attention.query), _rotated(keys.row)
    if query_row is None or key_row is None:
        return None
    if (query_row.cos, query_row.sin) != (key_row.cos, key_row.sin):
        return None
    if not _mask_fits(attention.mask, tensor_of(keys.buffer).shape[2]):
        return None
    query_row, key_row = _with_norm(program, query_row), _with_norm(program, key_row)
    if query_row.norm and key_row.norm and query_row.epsilon != key_row.epsilon:
        return None
    scale = query.shape[-1] ** -0.5 if attention.scale is None else float(attention.scale)
    return _Found(query_row, key_row, keys, values, attention.mask, scale)


def _is_one_token(shape: torch.Size) -> bool:
    sizes = tuple(shape)
    is_static = all(isinstance(size, int) for size in sizes)
    return is_static and len(sizes) == 4 and sizes[0] == sizes[2] == 1 and sizes[3] in HEAD_DIMS


def _mask_fits(mask: Node | None, capacity: int) -> bool:
    if mask is None:
        return True
    value = tensor_of(mask)
    is_row = value.numel() == capacity == value.shape[-1] and value.is_contiguous()
    return value.dtype == torch.bool and is_row


def _written(program: ExportedProgram, node: Node) -> _Written | None:
    """The buffer that a node is after a row was written to it, if nothing else reads it then."""
    while is_copy(node) and len(node.users) == 1:
        node = node.args[0]
    if node.target is not _aten.index_copy.default or len(node.args) != 4 or node.kwargs:
        return None
    buffer, dim, position, row = node.args
    signature = program.graph_signature
    fqn = signature.buffers_to_mutate.get(node.name)
    if fqn is None or signature.inputs_to_buffers.get(buffer.name) != fqn:
        return None
    where = tensor_of(position)
    is_row = dim in (2, -2) and where.numel() == 1 and where.dtype == torch.int64
    is_plain = tensor_of(buffer).is_contiguous() and tensor_of(buffer).shape[0] == 1
    output = program.graph.output_node()
    # The attention, or the repetition of heads in front of it, and the program's state at its end.
    others = [user for user in node.users if user is not output]
    only = set(buffer.users) == {node} and len(others) == 1
    return _Written(node, buffer, position, row) if is_row and is_plain and only else None


def _rotated(node: Node) -> _Rotated | None:
    for plain, turned in either(node, _aten.add.Tensor):
        for x, cos in either(plain, _aten.mul.Tensor):
            for swapped, sin in either(turned, _aten.mul.Tensor):
                if _is_turned(swapped, x) and _are_angles(cos, sin, x):
                    return _Rotated(x, cos, sin)
    return None


def _is_turned(node: Node, x: Node) -> bool:
    """Whether a node is ``cat((-x[d / 2:], x[:d / 2]), -1)``."""
    dims = tensor_of(x).dim()
    if node.target is not _aten.cat.default or len(node.args) != 2:
        return False
    parts, dim = node.args
    if len(parts) != 2 or dim not in (-1, dims - 1) or parts[0].target is not _aten.neg.default:
        return False
    return _half_of(parts[0].args[0], x) == 1 and _half_of(parts[1], x) == 0


def _half_of(node: Node, x: Node) -> int | None:
    """Which half of the last dimension of ``x`` a node is."""
    size, last = tensor_of(x).shape[-1], tensor_of(x).dim() - 1
    half = size // 2
    if node.target is operator.getitem:
        split, index = node.args
        is_halves = split.target is _aten.split.Tensor and split.args[:2] == (x, half)
        dim = split.args[2] if len(split.args) > 2 else 0
        return index if is_halves and dim in (-1, last) else None
    if node.target is not _aten.slice.Tensor or node.kwargs or len(node.args) != 4:
        return None
    sliced, dim, start, end = node.args
    if sliced is not x or dim not in (-1, last):
        return None
    return {(0, half): 0, (half, size): 1}.get(
        (start or 0, min(size if end is None else end, size))
    )


def _are_angles(cos: Node, sin: Node, x: Node) -> bool:
    value = tensor_of(x)
    return all(
        tensor_of(one).numel() == value.shape[-1] == tensor_of(one).shape[-1]
        and tensor_of(one).dtype == value.dtype
        for one in (cos, sin)
    )


def _with_norm(program: ExportedProgram, rotated: _Rotated) -> _Rotated:
    """With the norm of each head in front, as Qwen3 has it, if there is one."""
    swapped = rotated.x
    if swapped.target is not _aten.transpose.int or set(swapped.args[1:]) != {1, 2}:
        return rotated
    norm = norm_of(program, swapped.args[0])
    if norm is None:
        return rotated
    with swapped.graph.inserting_before(swapped):
        x = swapped.graph.call_function(_aten.transpose.int, (norm.x, 1, 2))
    x.meta["val"] = tensor_of(norm.x).transpose(1, 2)
    return _Rotated(x, rotated.cos, rotated.sin, norm.factors, norm.epsilon)


def _range(program: ExportedProgram, mask: Node | None, ranges: dict[Node, Node]) -> Node | None:
    """What the kernels want to know of a mask, once for each; added to ``ranges``."""
    if mask is None:
        return None
    if mask not in ranges:
        with program.graph.inserting_after(mask):
            found = program.graph.call_function(attended_range._opoverload, (mask,))
        found.meta["val"] = tensor_of(mask).new_empty(4, dtype=torch.int32)
        comes_from(found, mask)
        ranges[mask] = found
    return ranges[mask]


def _replace(program: ExportedProgram, node: Node, found: _Found, attended: Node | None) -> None:
    graph = program.graph
    arguments = {
        "query": found.query.x,
        "key": found.key.x,
        "value": found.values.row,
        "cos": found.query.cos,
        "sin": found.query.sin,
        "query_norm": found.query.norm,
        "key_norm": found.key.norm,
        "keys": found.keys.buffer,
        "values": found.values.buffer,
        "position": found.keys.position,
        "mask": found.mask,
        "attended": attended,
        "scale": found.scale,
        "epsilon": found.query.epsilon or found.key.epsilon,
    }
    with graph.inserting_before(node):
        both = graph.call_function(
            auto_functionalized, (token_attention._opoverload,), dict(arguments)
        )
        parts = [graph.call_function(operator.getitem, (both, i)) for i in range(3)]
    states = (found.keys, found.values)
    comes_from(both, node, *(one.node for one in states))
    both.meta["val"] = (tensor_of(found.query.x), *(tensor_of(one.buffer) for one in states))
    for part, value in zip(parts, both.meta["val"], strict=True):
        part.meta["val"] = value
    replace_attention(node, lambda _: parts[0])
    for state, part in zip(states, parts[1:], strict=True):
        graph.output_node().replace_input_with(state.node, part)
        program.graph_signature.replace_all_uses(state.node.name, part.name)
