"""Write 64-bit literals as compilers for macOS want them.

Inductor looks at the system that it runs on: ``7L`` on Linux, ``7LL`` on macOS, where ``int64_t``
is ``long long`` and ``std::max(7L, n)`` does not compile. Patched: the module ``sys`` that the
printers of C++ see.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch.utils._sympy.printers.sys",
    "torch._inductor.codegen.cpp_wrapper_cpu.sys",
    why="Literals would be this system's, which macOS does not compile.",
    until="aot_compile takes a target",
)
def literals_of_macos() -> Iterator[None]:
    """Print C++ as on macOS."""
    from torch._inductor.codegen import cpp_wrapper_cpu
    from torch.utils._sympy import printers

    there = _OnMacOs()
    with (
        mock.patch.object(printers, "sys", there),
        mock.patch.object(cpp_wrapper_cpu, "sys", there),
    ):
        yield


class _OnMacOs:
    """The module ``sys`` as it is there."""

    platform = "darwin"

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)
