"""PyTorch's functional collectives become ours, which name their ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from aoti_plugins.errors import LoweringError
from aoti_plugins.parallel import ops
from aoti_plugins.parallel.groups import Group, group_of_name

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")
_aten = torch.ops.aten
_ours = torch.ops.aoti_plugins

_Make: TypeAlias = Callable[[Node, Node, dict[str, Any]], Node]
"""Of a collective, a tensor that it takes, and its arguments by name."""


def op_of(node: Node) -> Any:
    """What a node calls, of ATen's or of an edge program's."""
    is_atens = isinstance(node.target, torch._ops.OpOverload)
    return node.target if is_atens else getattr(node.target, "_op", node.target)


def is_collective(node: Node) -> bool:
    """Whether a node is one of PyTorch's collectives, or waits for one."""
    return node.op == "call_function" and _name(node) in _REWRITERS


def rewrite_collectives(program: ExportedProgram) -> None:
    """Replace functional collectives of PyTorch by ours, in all graphs of a program, in place.

    Process groups are looked up by their names in this process.

    Args:
        program: functional, in ATen.

    Raises:
        LoweringError: a group is not there, or is none that a program for all ranks can name.
    """
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule) and any(map(is_collective, module.graph.nodes)):
            for node in list(module.graph.nodes):
                if is_collective(node):
                    _REWRITERS[_name(node)](node)
            module.graph.eliminate_dead_code()
            module.recompile()


def _name(node: Node) -> str:
    """``all_reduce`` for instance; empty for what is no op of theirs."""
    op = op_of(node)
    if not isinstance(op, torch._ops.OpOverload) or op.namespace not in _NAMESPACES:
        return ""
    return op._opname


def _arguments(node: Node) -> dict[str, Any]:
    """A node's arguments by the names of the op's parameters."""
    names = [argument.name for argument in op_of(node)._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _group(given: dict[str, Any]) -> Group:
    group = group_of_name(given["group_name"])
    size = given.get("group_size", group.size)
    if size != group.size:
        raise LoweringError(
            f"a collective says that its group has {size} ranks, and it has {group.size}"
        )
    return group


def _reduction(given: dict[str, Any]) -> int:
    name = str(given["reduce_op"]).lower()
    if name not in ops.NAMES:
        raise LoweringError(f"a collective reduces by {name!r}; there are: {', '.join(ops.NAMES)}")
    return ops.NAMES.index(name)


def _call(like: Node, target: Any, *args: Any) -> Node:
    """One more node in the graph of another one, described by its op."""
    made = like.graph.call_function(target, args)
    made.meta.update(like.meta)
    made.meta["val"] = target(*pytree.tree_map_only(Node, lambda node: node.meta["val"], args))
    return made


def _wait(node: Node) -> None:
    node.replace_all_uses_with(node.args[0])
    node.graph.erase_node(node)


def _replace_items(node: Node, made: Sequence[Node]) -> None:
    """Puts tensors in the place of a list of them."""
    for user in list(node.users):
        if user.target is operator.getitem:
            user.replace_all_uses_with(made[user.args[1]])
            node.graph.erase_node(user)
        elif _name(user) == "wait_tensors":
            user.args = (list(made),)
        else:
            raise LoweringError(f"{node.name} is a list of tensors, and {user.name} uses it whole")
    node.graph.erase_node(node)


def _one_by_one(make: _Make) -> Callable[[Node], None]:
    """Rewrites a collective of several tensors as one of each."""

    def rewrite(node: Node) -> None:
        given = _arguments(node)
        with node.graph.inserting_before(node):
            made = [make(node, one, given) for one in given["inputs"]]
        _replace_items(node, made)

    return rewrite


def _of_one(make: _Make) -> Callable[[Node], None]:
    def rewrite(node: Node) -> None:
        given = _arguments(node)
        with node.graph.inserting_before(node):
            made = make(node, next(iter(given.values())), given)
        node.replace_all_uses_with(made)
        node.graph.erase_node(node)

    return rewrite


def _our(op: Any, *read: Callable[[dict[str, Any]], Any]) -> _Make:
    """Makes one of ours, which takes a tensor, what is read of the arguments, and the ranks."""

    def make(node: Node, x: Node, given: dict[str, Any]) -> Node:
        return _call(node, op, x, *(one(given) for one in read), *_group(given).arguments())

    return make


def _shard_dim(node: Node, x: Node, given: dict[str, Any]) -> Node:
    """Pieces along one dim go to each rank; those that come are put together along another."""
    group = _group(given)
    gathered, sharded = given["gather_dim"], given["shard_dim"]
    size = x.meta["val"].size(sharded)
    if not isinstance(size, int) or size % group.size:
        raise LoweringError(
            f"{node.name} cuts a dim of {size} among {group.size} ranks, which does not divide it"
        )
    piece = size // group.size

    def cut(one: Node, dim: int, i: int, length: int) -> Node:
        return _call(node, _aten.slice.Tensor, one, dim, i * length, (i + 1) * length)

    pieces = [cut(x, sharded, i, piece) for i in range(group.size)]
    rows = pieces[0].meta["val"].size(0)
    if not isinstance(rows, int):
        raise LoweringError(f"{node.name} is among {group.size} ranks and has {rows} rows")
    together = _call(node, _aten.cat.default, pieces, 0)
    splits = [rows] * group.size
    came = _call(node, _ours.all_to_all.default, together, splits, splits, *group.arguments())
    parts = [cut(came, 0, i, rows) for i in range(group.size)]
    return _call(node, _aten.cat.default, parts, gathered)


_all_reduce = _our(_ours.all_reduce.default, _reduction)
_all_gather = _our(_ours.all_gather.default)
_reduce_scatter = _our(_ours.reduce_scatter.default, _reduction)
_splits = itemgetter("output_split_sizes"), itemgetter("input_split_sizes")

_REWRITERS: dict[str, Callable[[Node], None]] = {
    "wait_tensor": _wait,
    "wait_tensors": lambda node: _replace_items(node, node.args[0]),  # of PyTorch 2.15, for a list
    "all_reduce": _of_one(_all_reduce),
    "all_gather_into_tensor": _of_one(_all_gather),
    "reduce_scatter_tensor": _of_one(_reduce_scatter),
    "all_to_all_single": _of_one(_our(_ours.all_to_all.default, *_splits)),
    "broadcast": _of_one(_our(_ours.broadcast.default, itemgetter("src"))),
    "shard_dim_alltoall": _of_one(_shard_dim),
    "all_reduce_coalesced": _one_by_one(_all_reduce),
    "all_gather_into_tensor_coalesced": _one_by_one(_all_gather),
    "reduce_scatter_tensor_coalesced": _one_by_one(_reduce_scatter),
}
