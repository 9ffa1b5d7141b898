"""Composite ops whose results share memory with what they are given, though no schema says so.

``torch.meshgrid`` expands, ``type_as`` may give back what it got, as does dropout that is off.
PyTorch makes a program functional op by op: what is written to such a result, or to what it was
made of, is seen by the other only if the op has been taken apart before, into views.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def hidden_views(modules: Sequence[GraphModule]) -> dict[OpOverload, Callable[..., Any]]:
    """Those of a program's graphs, before it is functional, each with what it is made of.

    None if the program writes nowhere. Dropout that is off becomes an alias, in place.
    """
    if not writes(modules):
        return {}
    nodes = list(_ops(modules))
    for node in nodes:
        if node.target is torch.ops.aten.dropout.default:
            _say_that_it_is_a_view(node)
    # One of many that are called with the like of it answers for all.
    asked = {_called_with(node): node for node in nodes if _says_nothing(node.target)}
    found = {node.target for node in asked.values() if _is_view(node)}
    return {op: functools.partial(op._op_dk, _COMPOSITE) for op in found}


def writes(modules: Iterable[GraphModule]) -> bool:
    """Whether any graph of a program writes to a tensor."""
    return any(node.target._schema.is_mutable for node in _ops(modules))


def _ops(modules: Iterable[GraphModule]) -> Iterator[Node]:
    for module in modules:
        for node in module.graph.nodes:
            if isinstance(node.target, OpOverload):
                yield node


def _say_that_it_is_a_view(dropout: Node) -> None:
    """Only of one that is off; PyTorch has a decomposition of its own for it, into a copy."""
    given = dict(zip(("input", "p", "train"), dropout.args, strict=False)) | dropout.kwargs
    if not given["train"]:
        dropout.target, dropout.args = torch.ops.aten.alias.default, (given["input"],)
        dropout.kwargs = {}


def _says_nothing(op: OpOverload) -> bool:
    schema = op._schema
    is_composite = op.has_kernel_for_dispatch_key(_COMPOSITE)
    values = (*schema.arguments, *schema.returns)
    return bool(is_composite) and all(one.alias_info is None for one in values)


def _called_with(node: Node) -> tuple[OpOverload, str]:
    """An op, and what it is given, as far as it matters for where its results are."""
    given = pytree.tree_map_only(Node, _described, (node.args, node.kwargs))
    return node.target, f"{given} {bool(node.meta.get('unbacked_bindings'))}"


def _described(node: Node) -> str:
    values = pytree.tree_leaves(_value(node))
    return str(
        [
            (one.dtype, one.layout, [*one.size()], *([one.stride()] if _is_strided(one) else []))
            if isinstance(one, torch.Tensor)
            else one
            for one in values
        ]
    )


def _is_view(node: Node) -> bool:
    """Whether a result of a node, computed of tensors without memory, is in that of an argument."""
    if node.meta.get("unbacked_bindings"):
        return False  # a result of a size that only a call knows is computed
    args, kwargs = pytree.tree_map_only(Node, _value, (node.args, node.kwargs))
    given = set(_storages((args, kwargs)))
    mode = torch._guards.detect_fake_mode((args, kwargs))
    if not given or mode is None:
        return False
    with mode, torch.no_grad(), enable_python_dispatcher():  # PyTorch 2.11 needs it for sizes
        found = node.target(*args, **kwargs)
    return not given.isdisjoint(_storages(found))


def _value(node: Node) -> Any:
    return node.meta.get("val")


def _storages(values: Any) -> Iterator[int]:
    for value in pytree.tree_leaves(values):
        if isinstance(value, torch.Tensor) and _is_strided(value):
            yield value.untyped_storage()._cdata


def _is_strided(value: torch.Tensor) -> bool:
    return bool(value.layout == torch.strided)
