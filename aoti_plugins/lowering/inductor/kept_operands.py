"""Write into no tensor that is read elsewhere.

Inductor may turn an op that writes to a copy of a tensor (``index_put``) into one that writes to
the tensor, if nothing reads that later. Three things are not seen: an operand of ``cat`` is
computed in its place in the result, which would change with it; what is written may itself be read
from the tensor, elsewhere (``x.index_copy(0, index, x[:3])``), and would be overwritten before it
is read; and elements may share memory (``x.expand(8, 8).index_add(1, index, y)``). Before 2.13 also
what is computed from the tensor first (``x.index_add(0, index, x.index_select(0, index))``) may be
computed while it is written. Inside the block all of these are written to a copy.
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
from aoti_plugins.lowering.inductor.versions import torch_version
from aoti_plugins.lowering.values import hint


@patch(
    "torch._inductor.fx_passes.reinplace.inplaceable_ops",
    "torch._inductor.fx_passes.reinplace.get_node_storage(node)",
    why="A write into an operand of a cat, of own values elsewhere, or to shared memory is wrong.",
    until="reinplace knows of operands of cat, a node's other arguments, and elements at one place",
)
def kept_operands() -> Iterator[None]:
    """Tensors that may not be written to stay as they are; see above."""
    from torch._inductor.fx_passes.reinplace import inplaceable_ops

    careful = {op: _careful(how) for op, how in inplaceable_ops.items()}
    with mock.patch.dict(inplaceable_ops, careful):
        yield


def _careful(how: Any) -> Any:
    places = (how.mutated_arg,) if isinstance(how.mutated_arg, int) else how.mutated_arg

    def check(node: Node) -> bool:
        written = [node.args[place] for place in places]
        read = [value for place, value in enumerate(node.args) if place not in places]
        kept = any(
            _is_joined(one) or _is_read_in(one, read) or _shares_memory(one) for one in written
        )
        return bool(how.extra_check(node)) and not kept

    return dataclasses.replace(how, extra_check=check)


def _is_read_in(written: Any, arguments: list[Any]) -> bool:
    """Whether what is written, or where to, lies in the memory that is written to."""
    from torch._inductor.fx_passes.reinplace import get_node_storage

    if not isinstance(written, Node):
        return False
    place = get_node_storage(written)
    tensors = [one for one in pytree.tree_leaves(arguments) if isinstance(one, Node)]
    if torch_version() < (2, 13):
        tensors = _sources(tensors)
    return any(get_node_storage(one) == place for one in tensors)


def _sources(nodes: list[Node]) -> list[Node]:
    """Nodes, and all that they are computed from."""
    found = dict.fromkeys(nodes)
    left = list(nodes)
    while left:
        new = [one for one in left.pop().all_input_nodes if one not in found]
        found.update(dict.fromkeys(new))
        left.extend(new)
    return list(found)


def _shares_memory(written: Any) -> bool:
    """Whether some elements of a tensor lie where others do, as far as sizes are known."""
    if not isinstance(written, Node) or not isinstance(written.meta.get("val"), torch.Tensor):
        return False
    value = written.meta["val"]
    dims = [
        (hint(stride), size if isinstance(size, int) else max(2, hint(size)))
        for size, stride in zip(value.shape, value.stride(), strict=True)
    ]
    reach = 0  # of the dims of smaller strides
    for stride, size in sorted(dims):
        if size > 1 and stride <= reach:
            return True
        reach += max(0, size - 1) * stride
    return False


def _is_joined(written: Any) -> bool:
    """Whether a ``cat`` reads a tensor's memory that it may have moved into its result."""
    from torch._inductor.fx_passes.reinplace import get_node_storage

    if not isinstance(written, Node) or written.op in ("placeholder", "get_attr"):
        return False
    place = get_node_storage(written)
    joins = written.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    return any(get_node_storage(one) == place for join in joins for one in join.all_input_nodes)
