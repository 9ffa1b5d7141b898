"""Ops that a delegate takes whole although ExecuTorch lets no edge program hold them.

ExecuTorch checks edge programs: of ATen's ops only the core ones and those that it could decompose
pass, whatever a partitioner says, and each with the dtypes that its own kernels know. Others
(``torch.cumprod``, a product of complex numbers) would be refused before a delegate gets them. Ops
of other namespaces pass if their dtypes do, which is not so of all of torchao's. So between ATen
and the delegate such an op goes by a name of ours, with the same schema and described by the
original; nobody calls it.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as dialects
from executorch.exir.dialects.edge._ops import AllowedDtypeSet, EdgeOpOverload
from executorch.exir.verification.verifier import EXIRATenDialectVerifier
from torch import Tensor
from torch._export.verifier import SpecViolationError
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from aoti_plugins.dtypes import BY_NAME

_NAMESPACE = "aoti_plugins_carried"

_NAMESPACES = ("aten", "torchao")

# A delegate has constants of the last one, which a graph pass reads as bytes.
_DTYPES = frozenset(getattr(torch, name) for name in (*BY_NAME, "float8_e8m0fnu"))
_ALIAS = re.compile(r"\(\w+!?(?: -> \*)?\)")

_originals: dict[OpOverload, OpOverload] = {}
_defining = threading.Lock()


def original(op: Any) -> Any:
    """The op that is carried under a name of ours; anything else as it is."""
    return _originals.get(op, op) if isinstance(op, OpOverload) else op


def node_name(node: Node) -> str:
    """A node's name as it would be if its op were not carried."""
    op = original(getattr(node.target, "_op", node.target))
    return node.name.replace(_NAMESPACE, getattr(op, "namespace", "aten"))


def carry(nodes: Iterable[Node]) -> None:
    """Rename, in place, those ops that ExecuTorch would refuse.

    Args:
        nodes: what a delegate takes of a functional ATen program; they carry ``meta["val"]``.
    """
    for node in nodes:
        op = node.target
        is_theirs = isinstance(op, OpOverload) and op.namespace in _NAMESPACES
        if is_theirs and (_is_refused(op) or _has_refused_dtype(op, node)):
            node.target = _carrier(op, _numbers(node))


def take_all_dtypes(op: OpOverload) -> None:
    """Let ExecuTorch's check pass an op of ours whatever the dtypes of its tensors are."""
    for known in _known_dtypes(op):
        known.types |= _DTYPES


def can_be_checked(node: Node) -> bool:
    """Whether ExecuTorch's check of edge programs can read a node, whatever the op is called.

    It takes the first result for a list if the op gives a list, and asks for its length. A tensor
    without dims has none, as after ``torch.unbind`` of a vector, and a dynamic one would be what it
    was in the example from then on.
    """
    value = node.meta.get("val")
    first = value[0] if isinstance(value, list | tuple) and value else None
    if not isinstance(first, Tensor) or not _gives_list(node.target):
        return True
    return first.dim() > 0 and isinstance(first.size(0), int)


def _gives_list(op: Any) -> bool:
    returns = op._schema.returns if isinstance(op, OpOverload) else ()
    return any(isinstance(one.type, torch.ListType) for one in returns)


def put_back(nodes: Iterable[Node]) -> None:
    """Give carried ops of an edge program their own names back, in place."""
    for node in nodes:
        if isinstance(node.target, EdgeOpOverload) and node.target._op in _originals:
            node.target = _edge_op(_originals[node.target._op])


@contextlib.contextmanager
def under_its_own_name(node: Node) -> Iterator[None]:
    """For a while a node is as if its op were not carried."""
    target = node.target
    put_back([node])
    node.target = original(node.target)
    try:
        yield
    finally:
        node.target = target


@functools.cache
def _is_refused(op: OpOverload) -> bool:
    if op in _decomposed() or op.is_view or op._schema.is_mutable:
        return False
    try:
        EXIRATenDialectVerifier().check_valid_op(op)
    except SpecViolationError:
        return True
    return False


@functools.cache
def _decomposed() -> Collection[OpOverload]:
    """Ops that ExecuTorch lets through where a partitioner keeps them whole."""
    return frozenset(torch.export.default_decompositions())


def _has_refused_dtype(op: OpOverload, node: Node) -> bool:
    if not {tensor.dtype for tensor in _tensors(node)} <= _allowed_dtypes(op):
        return True
    by_name = _dtypes_by_name(op, node)
    constraint = _edge_op(_copy_of(op))._schema.dtype_constraint
    return len(set(by_name.values())) > 1 and not constraint.validate(by_name)


def _tensors(node: Node) -> Iterator[Tensor]:
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return (value for value in pytree.tree_leaves(values) if isinstance(value, Tensor))


@functools.cache
def _allowed_dtypes(op: OpOverload) -> frozenset[torch.dtype]:
    """All dtypes that ExecuTorch knows for some argument or result of an op, or of its copies."""
    return frozenset(dtype for known in _known_dtypes(_copy_of(op)) for dtype in known.types)


def _copy_of(op: OpOverload) -> OpOverload:
    """What stands for a view in an edge program; any other op as it is."""
    copy = getattr(torch.ops.aten, f"{op._opname}_copy", None) if op.is_view else None
    found: OpOverload = getattr(copy, op._overloadname, op)
    return found


def _dtypes_by_name(op: OpOverload, node: Node) -> dict[str, torch.dtype]:
    """The dtypes of arguments and results by the names that ExecuTorch's check gives them.

    A number that stands for a tensor has become one, of the number's dtype, when they are checked.
    """
    results = node.meta["val"]
    results = results if isinstance(results, list | tuple) else (results,)
    named = [
        (parameter.name, _as_tensor(value) if _is_tensor(parameter) else value)
        for parameter, value in _arguments(op, node)
    ]
    if len(op._schema.returns) == 1 and isinstance(node.meta["val"], list | tuple):
        results = (results,)
    named += [
        (returned.name or f"__ret_{index}", value)
        for index, (returned, value) in enumerate(zip(op._schema.returns, results, strict=True))
    ]
    firsts = ((name, v[0] if isinstance(v, list | tuple) and v else v) for name, v in named)
    return {name: value.dtype for name, value in firsts if isinstance(value, Tensor)}


def _is_tensor(parameter: Any) -> bool:
    return isinstance(parameter.type, torch.TensorType)


def _as_tensor(value: Any) -> Any:
    return torch.tensor(value) if isinstance(value, int | float | complex) else value


def _known_dtypes(op: OpOverload) -> Collection[AllowedDtypeSet]:
    """Those of each argument and result, as ExecuTorch checks them."""
    known: Collection[AllowedDtypeSet] = _edge_op(op)._schema.dtype_constraint.type_alias.values()
    return known


def _edge_op(op: OpOverload) -> EdgeOpOverload:
    packet = getattr(getattr(dialects.edge, op.namespace), op._opname)
    return getattr(packet, op._overloadname)


def _numbers(node: Node) -> tuple[str, ...]:
    """Names of the parameters for tensors that a node gives numbers; only ATen's ops allow it."""
    return tuple(
        parameter.name
        for parameter, value in _arguments(node.target, node)
        if _is_tensor(parameter) and not isinstance(value, Tensor)
    )


def _arguments(op: OpOverload, node: Node) -> Iterator[tuple[Any, Any]]:
    """The op's parameters and what the node gives for each, described by fake tensors."""
    for index, parameter in enumerate(op._schema.arguments):
        value = node.args[index] if index < len(node.args) else node.kwargs.get(parameter.name)
        yield parameter, pytree.tree_map_only(Node, lambda x: x.meta.get("val"), value)


def _carrier(op: OpOverload, numbers: tuple[str, ...]) -> OpOverload:
    """The op under our name, defined on first use and for the rest of the process."""
    with _defining:
        return _defined(op, numbers)


@functools.cache
def _defined(op: OpOverload, numbers: tuple[str, ...]) -> OpOverload:
    overload = "_".join((op._overloadname, *numbers))
    name = op._opname if overload == "default" else f"{op._opname}.{overload}"
    signature = _ALIAS.sub("", str(op._schema).partition("(")[2])
    for parameter in numbers:
        signature = re.sub(rf"\bTensor {parameter}\b", f"Scalar {parameter}", signature)
    tags = [tag for tag in op.tags if tag is not torch.Tag.core]
    _library().define(f"{name}({signature}", tags=tags)
    _library().impl(name, op, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{name}", _described(op), lib=_library())
    packet = getattr(getattr(torch.ops, _NAMESPACE), op._opname)
    carrier: OpOverload = getattr(packet, overload)
    take_all_dtypes(carrier)
    _originals[carrier] = op
    return carrier


def _described(op: OpOverload) -> Any:
    """What describes the results of an op: the op, on fake tensors, with memory of their own."""
    if not op.is_view:
        return op

    def describe(*args: Any, **kwargs: Any) -> Any:
        return pytree.tree_map_only(
            Tensor,
            lambda x: torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device),
            op(*args, **kwargs),
        )

    return describe


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library(_NAMESPACE, "FRAGMENT")
