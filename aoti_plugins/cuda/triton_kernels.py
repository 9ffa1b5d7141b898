"""Triton kernels in operators that Inductor traces."""

from __future__ import annotations

from typing import Any


def wrapped(kernel: Any) -> Any:
    """The kernel as tracing can see it; an interpreted one as it is."""
    from torch.library import wrap_triton
    from triton.runtime.jit import JITFunction

    return wrap_triton(kernel) if isinstance(kernel, JITFunction) else kernel
