"""``embedding_bag`` in terms of the op whose kernel is compiled into the blob."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from aoti_plugins.lowering.decompositions.embedding_bag import Bags, Reduced, reduced_by


def embedding_bag(*args: Any, **named: Any) -> Any:
    """``aten._embedding_bag`` and ``aten._embedding_bag_forward_only``, results as on the CPU."""
    return reduced_by(_by_kernel, *args, **named)


DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    torch.ops.aten._embedding_bag.default: embedding_bag,
    torch.ops.aten._embedding_bag_forward_only.default: embedding_bag,
}


def _by_kernel(bags: Bags) -> Reduced:
    # The op needs triton where it is registered, so not before it is used.
    from aoti_plugins.cuda.embedding_bags import op

    del op
    fields = [getattr(bags, field.name) for field in dataclasses.fields(bags)]
    return torch.ops.aoti_plugins.reduce_bags.default(*fields)
