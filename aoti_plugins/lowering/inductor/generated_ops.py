"""Ops for which Inductor generates code for sure, so that nobody asks it.

Views and what a trace has checked compute nothing. Ops on floating-point tensors that are
pointwise, only move elements, or add up along dims are generated; but for special functions, which
Inductor has for some devices only.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.fx import Node

from aoti_plugins.lowering.passes.restore_views import VIEWS

_aten = torch.ops.aten

# In these Inductor generates every pointwise op.
FLOATS = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))

# Of these it makes other sizes and strides of the same memory, but for complex numbers.
_SAME_MEMORY = {*VIEWS, *VIEWS.values(), _aten.view.default} - {
    _aten.as_strided.default,
    _aten.as_strided_copy.default,
}
_VIEWED = FLOATS | {
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
}

# These it generates as it does pointwise ops, though they are not tagged as such.
LIKE_POINTWISE = {
    _aten._native_batch_norm_legit_no_training.default,
    _aten._softmax.default,
    _aten._unsafe_view.default,
    _aten.cat.default,
    _aten.constant_pad_nd.default,
    _aten.contiguous.default,
    _aten.flatten.using_ints,
    _aten.hardsigmoid.default,
    _aten.hardswish.default,
    _aten.mean.dim,
    _aten.softmax.int,
    _aten.stack.default,
    _aten.sum.dim_IntList,
}


def is_generated(op: Any, node: Node) -> bool:
    """Whether it is generated for sure; integer, complex and random forms may be kernels."""
    if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ()):
        return False
    if getattr(op, "_opname", None) in _special_functions():
        return False
    is_one = isinstance(node.meta.get("val"), torch.Tensor)
    return is_one and torch.Tag.pointwise in getattr(op, "tags", ()) and _is_floating(node)


def is_like_pointwise(op: Any, node: Node) -> bool:
    """Whether an op without such a tag is one of those, or gives what it is given."""
    if op is _aten._assert_tensor_metadata.default:
        return True
    if op is _aten.batch_norm.default:
        return node.args[5] is False and _is_floating(node)
    if op is _aten.dropout.default:
        return node.args[2:] == (False,) and _is_floating(node)
    if op is _aten.pad.default:
        return node.args[2:3] in ((), ("constant",)) and not node.kwargs and _is_floating(node)
    return op in LIKE_POINTWISE and _is_floating(node)


def _is_floating(node: Node) -> bool:
    """Whether all that an op is given and gives are floating-point tensors."""
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    tensors = [t for v in values for t in (v if isinstance(v, list | tuple) else (v,))]
    return all(isinstance(t, torch.Tensor) and t.dtype in FLOATS for t in tensors)


def is_view(op: Any, node: Node) -> bool:
    """Whether an op only looks at its one tensor in another way."""
    values = [n.meta.get("val") for n in node.all_input_nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return op in _SAME_MEMORY and len(tensors) == 1 and tensors[0].dtype in _VIEWED


@functools.cache
def _special_functions() -> frozenset[str]:
    """Names of the pointwise ops that Inductor has an own line of code for on each device."""
    from torch._inductor.codegen.common import pointwise_overrides_data

    return frozenset(function.name for function in pointwise_overrides_data.values())
