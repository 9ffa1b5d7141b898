"""Searches as PyTorch does them.

Inductor gives Triton the name of the buffer that is searched, and not where a view begins in it
(torch 2.11) nor that it has another dtype (2.13, too); 2.11 fails for views of what a program
computes. Triton's search finds NaN, which is larger than nothing, before all others (2.11), where
PyTorch's kernels find it behind all. Inside the block Inductor's lowering of ``searchsorted`` gets
whole buffers, and NaN goes behind all. Patched: the entry in
``torch._inductor.lowering.lowerings``. With 2.15, only views of another dtype need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from aoti_plugins.lowering.inductor.patching import patch

_SEARCH = torch.ops.aten.searchsorted.Tensor


@patch(
    "torch._inductor.lowering.lowerings",
    why="Searches in views and for NaN differ from PyTorch's.",
    until="Inductor passes views and dtypes to Triton's search",
)
def searches_of_pytorch() -> Iterator[None]:
    """Searches in views and for NaN are right."""
    from torch._inductor.lowering import lowerings

    if _SEARCH not in lowerings:
        raise AttributeError(f"torch._inductor.lowering.lowerings has no {_SEARCH}")
    with mock.patch.dict(lowerings, {_SEARCH: _as_pytorch(lowerings[_SEARCH], lowerings)}):
        yield


def _as_pytorch(original: Callable[..., Any], lowerings: Any) -> Callable[..., Any]:
    aten = torch.ops.aten

    def lowered(rows: Any, x: Any, **options: Any) -> Any:
        found = original(_whole(rows), x, **options)
        if not x.get_dtype().is_floating_point:
            return found
        like = {"dtype": found.get_dtype(), "device": found.get_device()}
        behind = lowerings[aten.full.default](found.get_size(), rows.get_size()[-1], **like)
        return lowerings[aten.where.self](lowerings[aten.isnan.default](x), behind, found)

    return lowered


def _whole(tensor: Any) -> Any:
    """The same in a buffer of its dtype that it is the beginning of."""
    from torch._inductor.ir import ExternKernel, TensorBox
    from torch._inductor.virtualized import V

    tensor = TensorBox(ExternKernel.realize_input(tensor))
    has_its_dtype = V.graph.get_dtype(tensor.get_name()) == tensor.get_dtype()
    if tensor.get_layout().offset != 0 or not has_its_dtype:
        tensor = TensorBox(ExternKernel.copy_input(tensor))
    return tensor
