"""Searches for NaN.

Triton's search goes on where a number is larger, so it finds NaN, which is not, before all others.
PyTorch's kernels find it behind all. Inside the block Inductor's lowering of ``searchsorted`` is
followed by that. Patched: the entry in ``torch._inductor.lowering.lowerings``. Tested with torch
2.11 and 2.13. The patch can go when ``bucketize_binary_search`` has an answer for NaN.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

_SEARCH = torch.ops.aten.searchsorted.Tensor


@contextlib.contextmanager
def nan_behind_all() -> Iterator[None]:
    """NaN belongs behind all of the numbers that are searched."""
    from torch._inductor.lowering import lowerings

    with mock.patch.dict(lowerings, {_SEARCH: _with_nan(lowerings[_SEARCH], lowerings)}):
        yield


def _with_nan(original: Callable[..., Any], lowerings: Any) -> Callable[..., Any]:
    aten = torch.ops.aten

    def lowered(rows: Any, x: Any, **options: Any) -> Any:
        found = original(rows, x, **options)
        if not x.get_dtype().is_floating_point:
            return found
        like = {"dtype": found.get_dtype(), "device": found.get_device()}
        behind = lowerings[aten.full.default](found.get_size(), rows.get_size()[-1], **like)
        return lowerings[aten.where.self](lowerings[aten.isnan.default](x), behind, found)

    return lowered
