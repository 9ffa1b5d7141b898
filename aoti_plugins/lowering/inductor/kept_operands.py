"""Write into no tensor that is read elsewhere.

Inductor may turn an op that writes to a copy of a tensor (``index_put``) into one that writes to
the tensor, if nothing reads that later. Two things are not seen: an operand of ``cat`` is computed
in its place in the result, which would change with it, and what is written may itself be read from
the tensor, elsewhere (``x.index_copy(0, index, x[:3])``), and would be overwritten before it is
read. Inside the block both are written to a copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.fx_passes.reinplace.inplaceable_ops",
    "torch._inductor.fx_passes.reinplace.get_node_storage(node)",
    why="A write into an operand of a cat, or of a tensor's own values elsewhere, is wrong.",
    until="reinplace knows of the operands of cat, and looks at a node's other arguments",
)
def kept_operands() -> Iterator[None]:
    """Operands of ``cat``, and tensors that are written to from themselves, stay as they are."""
    from torch._inductor.fx_passes.reinplace import inplaceable_ops

    careful = {op: _careful(how) for op, how in inplaceable_ops.items()}
    with mock.patch.dict(inplaceable_ops, careful):
        yield


def _careful(how: Any) -> Any:
    places = (how.mutated_arg,) if isinstance(how.mutated_arg, int) else how.mutated_arg

    def check(node: Node) -> bool:
        written = [node.args[place] for place in places]
        read = [value for place, value in enumerate(node.args) if place not in places]
        kept = any(_is_joined(one) or _is_read_in(one, read) for one in written)
        return bool(how.extra_check(node)) and not kept

    return dataclasses.replace(how, extra_check=check)


def _is_read_in(written: Any, arguments: list[Any]) -> bool:
    """Whether what is written, or where to, lies in the memory that is written to."""
    from torch._inductor.fx_passes.reinplace import get_node_storage

    if not isinstance(written, Node):
        return False
    place = get_node_storage(written)
    tensors = [one for one in pytree.tree_leaves(arguments) if isinstance(one, Node)]
    return any(get_node_storage(one) == place for one in tensors)


def _is_joined(written: Any) -> bool:
    """Whether a ``cat`` reads a tensor's memory that it may have moved into its result."""
    from torch._inductor.fx_passes.reinplace import get_node_storage

    if not isinstance(written, Node) or written.op in ("placeholder", "get_attr"):
        return False
    place = get_node_storage(written)
    joins = written.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    return any(get_node_storage(one) == place for join in joins for one in join.all_input_nodes)
