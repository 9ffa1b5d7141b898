"""The operator ``aoti_plugins::stored``: its result is in memory before it is used.

Inductor computes what is used several times anew for each use, unless it reads enough from memory;
where each step of a loop uses the one before several times, and nothing is read, that is never
done. The operator's lowering is in ``aoti_plugins.lowering.inductor.stored_values``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.library import custom_op


@custom_op("aoti_plugins::stored", mutates_args=(), tags=(torch.Tag.flexible_layout,))
def stored(x: torch.Tensor) -> torch.Tensor:
    """The same elements, any dtype, sizes and strides."""
    return x.clone()


@stored.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def store_result(node: Node, meta: Mapping[str, Any]) -> Node:
    """Put the operator behind a node, in the place of which all that used it uses the result.

    Args:
        node: makes a tensor.
        meta: what is known of the new node, which is returned.
    """
    with node.graph.inserting_after(node):
        made = node.graph.call_function(torch.ops.aoti_plugins.stored.default, (node,))
    made.meta = dict(meta)
    node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)
    return made
