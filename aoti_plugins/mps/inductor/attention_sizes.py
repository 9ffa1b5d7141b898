"""Say how large the results of Apple's attention are, for sizes that are not known yet.

From PyTorch 2.15 on its own function for that expands the query, which ends in an error where a
size is dynamic: ``expand`` takes but numbers there. Patched: the table of functions that stand for
ops in graphs without memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from aoti_plugins.lowering.inductor.patching import patch


def attention_results(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The result ``[..., heads, rows, value_dim]`` and weights ``[..., heads, rows, keys]``.

    Args:
        query: ``[..., heads, rows, dim]``.
        key: ``[..., heads, keys, dim]``, as ``value`` of as many heads, or of some queries' each.
        value: ``[..., heads, keys, value_dim]``.
    """
    *outer, _ = query.shape
    return query.new_empty((*outer, value.size(-1))), query.new_empty((*outer, key.size(-2)))


@patch(
    "torch._subclasses.fake_impls.op_implementations_dict",
    "torch.ops.aten._scaled_dot_product_attention_math_for_mps.default",
    why="Attention with a dynamic number of rows ends the lowering with PyTorch 2.15.",
    until="meta__scaled_dot_product_attention_math_for_mps takes symbolic sizes",
)
def sizes_of_attention() -> Iterator[None]:
    """Let graphs with dynamic sizes have Apple's attention."""
    from torch._subclasses import fake_impls

    def results(mode: Any, op: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        with mode:
            return attention_results(*args[:3])

    own = {torch.ops.aten._scaled_dot_product_attention_math_for_mps.default: results}
    with mock.patch.dict(fake_impls.op_implementations_dict, own):
        yield
