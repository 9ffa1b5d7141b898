"""Turn copying view ops back into views where nobody can tell the difference.

ExecuTorch's edge dialect spells views as copies (``slice_copy``, ``select_copy``, ``split_copy``,
…). Inductor would copy in earnest wherever such a result meets a kernel call. A copy and a view
differ only when the result or what it looks into is written to afterwards, so a copy stays a copy
(as a view that is cloned, which Inductor knows) when anything that shares its memory is mutated.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

_aten = torch.ops.aten

# view_copy may follow a permute that has become a view too, whose strides .view would refuse.
VIEWS = {
    _aten.alias_copy.default: _aten.alias.default,
    _aten.as_strided_copy.default: _aten.as_strided.default,
    _aten.detach_copy.default: _aten.detach.default,
    _aten.diagonal_copy.default: _aten.diagonal.default,
    _aten.expand_copy.default: _aten.expand.default,
    _aten.narrow_copy.default: _aten.narrow.default,
    _aten.permute_copy.default: _aten.permute.default,
    _aten.select_copy.int: _aten.select.int,
    _aten.slice_copy.Tensor: _aten.slice.Tensor,
    _aten.split_copy.Tensor: _aten.split.Tensor,
    _aten.split_with_sizes_copy.default: _aten.split_with_sizes.default,
    _aten.squeeze_copy.default: _aten.squeeze.default,
    _aten.squeeze_copy.dim: _aten.squeeze.dim,
    _aten.squeeze_copy.dims: _aten.squeeze.dims,
    _aten.t_copy.default: _aten.t.default,
    _aten.transpose_copy.int: _aten.transpose.int,
    _aten.unbind_copy.int: _aten.unbind.int,
    _aten.unfold_copy.default: _aten.unfold.default,
    _aten.unsqueeze_copy.default: _aten.unsqueeze.default,
    _aten.view_as_real_copy.default: _aten.view_as_real.default,
    _aten.view_copy.default: _aten.reshape.default,
}


def restore_views(program: ExportedProgram) -> None:
    """Replace copies by views in place; expects ATen ops (run ``edge_to_aten`` first)."""
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            written = _written_in(module)
            if module is program.graph_module:
                written |= _written_at_the_end(program)
            _restore(module, written)


def loosen_views(program: ExportedProgram) -> None:
    """Let views copy where they must, in place: ``view`` becomes ``reshape`` again.

    PyTorch makes a ``view`` of a ``reshape`` as it decomposes a program, by the strides that
    results have then. Ops that are still whole may give others once Inductor takes them apart, as
    attention does.
    """
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                if node.op == "call_function" and node.target == _aten.view.default:
                    node.target = _aten.reshape.default


def writes(node: Node) -> bool:
    """Whether a node calls an op that writes to a tensor it is given."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


def written_by(node: Node) -> list[Node]:
    """What the op of a node writes to, whichever of its arguments that is."""
    if not writes(node):
        return []
    target: Any = node.target
    found: list[Node] = []
    for index, argument in enumerate(target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            found += [item for item in _flatten(given) if isinstance(item, Node)]
    return found


def _restore(module: GraphModule, written: set[Node]) -> None:
    roots = _memory_roots(module)
    shared_and_written = {roots[node] for node in written}
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in VIEWS:
            node.target = VIEWS[node.target]
            if roots[node] in shared_and_written:
                _clone(node)


def _clone(view: Node) -> None:
    """Give the users of a view copies of it, or of each of the views where it is a list."""
    views = [user for user in view.users if _is_getitem(user)] or [view]
    for one in views:
        with one.graph.inserting_after(one):
            copy = one.graph.call_function(
                _aten.clone.default, (one,), {"memory_format": torch.contiguous_format}
            )
        copy.meta.update(one.meta)
        one.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)


def _memory_roots(module: GraphModule) -> dict[Node, Node]:
    """For each node, the node whose memory it would share if every candidate became a view."""
    roots: dict[Node, Node] = {}
    for node in module.graph.nodes:
        base = _base(node)
        roots[node] = roots[base] if base is not None else node
    return roots


def _base(node: Node) -> Node | None:
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    if _is_getitem(node) or node.target in VIEWS or returns_alias(node):
        return node.args[0]
    return None


def _is_getitem(node: Node) -> bool:
    return node.target is operator.getitem


def returns_alias(node: Node) -> bool:
    """Whether a node's result may be a view of what the node is given."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(out.alias_info is not None for out in schema.returns)


def _written_in(module: GraphModule) -> set[Node]:
    """Nodes that an op of the graph writes to."""
    return {one for node in module.graph.nodes for one in written_by(node)}


def _written_at_the_end(program: ExportedProgram) -> set[Node]:
    """Placeholders that get a new value when the program ends, and the values they get."""
    signature = program.graph_signature
    targets = set(signature.buffers_to_mutate.values())
    mutated_inputs = set(signature.user_inputs_to_mutate.values())
    names = {name for name, target in signature.inputs_to_buffers.items() if target in targets}
    names |= (
        mutated_inputs | set(signature.buffers_to_mutate) | set(signature.user_inputs_to_mutate)
    )
    return {node for node in program.graph.nodes if node.name in names}


def _flatten(argument: object) -> list[object]:
    return list(argument) if isinstance(argument, list | tuple) else [argument]
