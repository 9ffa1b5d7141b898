"""Write into no tensor that lies inside the result of ``cat``.

Inductor computes an operand of ``cat`` in its place in the result. It may also turn an op that
writes to a copy of a tensor (``index_put``) into one that writes to the tensor, if nothing reads
that later. Both together change the result of a ``cat`` that came before. Inside the block a tensor
that ``cat`` reads is not written to in place of its copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.fx import Node

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.fx_passes.reinplace.inplaceable_ops",
    "torch._inductor.fx_passes.reinplace.get_node_storage(node)",
    why="A write into an operand of a cat changes the result of the cat.",
    until="reinplace knows that operands of cat lie inside its result",
)
def kept_operands() -> Iterator[None]:
    """Operands of ``cat`` stay as they are."""
    from torch._inductor.fx_passes.reinplace import inplaceable_ops

    careful = {op: _careful(how) for op, how in inplaceable_ops.items()}
    with mock.patch.dict(inplaceable_ops, careful):
        yield


def _careful(how: Any) -> Any:
    places = (how.mutated_arg,) if isinstance(how.mutated_arg, int) else how.mutated_arg

    def check(node: Node) -> bool:
        joined = any(_is_joined(node.args[place]) for place in places)
        return bool(how.extra_check(node)) and not joined

    return dataclasses.replace(how, extra_check=check)


def _is_joined(written: Any) -> bool:
    """Whether a ``cat`` reads a tensor's memory that it may have moved into its result."""
    from torch._inductor.fx_passes.reinplace import get_node_storage

    if not isinstance(written, Node) or written.op in ("placeholder", "get_attr"):
        return False
    place = get_node_storage(written)
    joins = written.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    return any(get_node_storage(one) == place for join in joins for one in join.all_input_nodes)
