"""Predict the layout of a convolution's result by the rule of the runtime's kernel.

For a tensor on a GPU, PyTorch asks which of its libraries would convolve, and takes that library's
layout. A build of PyTorch without CUDA has none and answers "row-major" for what our runtime gives
channels last: the code would then read the result wrongly. Patched:
``torch._C._conv_determine_backend_memory_format``. Tested with torch 2.11 and 2.13.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._prims_common import suggest_memory_format


@contextlib.contextmanager
def convolution_layout() -> Iterator[None]:
    """Results are channels last where input or weight are, except in float64."""

    def layout(input: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
        del backend
        if input.dtype == torch.float64:
            return torch.contiguous_format
        found = map(suggest_memory_format, (input, weight))
        return next((f for f in found if f != torch.contiguous_format), torch.contiguous_format)

    with mock.patch.object(torch._C, "_conv_determine_backend_memory_format", layout):
        yield
