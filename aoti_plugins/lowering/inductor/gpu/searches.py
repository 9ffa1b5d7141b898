"""Searches as PyTorch does them.

Inductor gives Triton the name of the buffer that is searched. In torch 2.11 it leaves out where in
that buffer a view begins, and fails for views of what a program computes; its search finds NaN,
which is larger than nothing, before all others, where PyTorch's kernels find it behind all. In both
2.11 and 2.13 numbers of two dtypes are compared as Triton does, which makes -1 of int8 the largest
number of uint8. Inside the block Inductor's lowering of ``searchsorted`` gets whole buffers and one
dtype, and NaN goes behind all. Patched: the entry in ``torch._inductor.lowering.lowerings``. The
patch can go with 2.11, but for the dtypes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

_SEARCH = torch.ops.aten.searchsorted.Tensor


@contextlib.contextmanager
def searches_of_pytorch() -> Iterator[None]:
    """Searches in views, for NaN, and among numbers of another dtype are right."""
    from torch._inductor.lowering import lowerings

    with mock.patch.dict(lowerings, {_SEARCH: _as_pytorch(lowerings[_SEARCH], lowerings)}):
        yield


def _as_pytorch(original: Callable[..., Any], lowerings: Any) -> Callable[..., Any]:
    from torch._inductor.lowering import to_dtype

    aten = torch.ops.aten

    def lowered(rows: Any, x: Any, **options: Any) -> Any:
        if rows.get_dtype() != x.get_dtype():
            common = torch.promote_types(rows.get_dtype(), x.get_dtype())
            rows, x = to_dtype(rows, common), to_dtype(x, common)
        found = original(_whole(rows), x, **options)
        if not x.get_dtype().is_floating_point:
            return found
        like = {"dtype": found.get_dtype(), "device": found.get_device()}
        behind = lowerings[aten.full.default](found.get_size(), rows.get_size()[-1], **like)
        return lowerings[aten.where.self](lowerings[aten.isnan.default](x), behind, found)

    return lowered


def _whole(tensor: Any) -> Any:
    """The same in a buffer that it begins in."""
    from torch._inductor.ir import ExternKernel, TensorBox

    tensor = TensorBox(ExternKernel.realize_input(tensor))
    if tensor.get_layout().offset != 0:
        tensor = TensorBox(ExternKernel.copy_input(tensor))
    return tensor
