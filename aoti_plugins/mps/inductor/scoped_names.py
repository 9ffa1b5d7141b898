"""Let values in nested conditions of generated Metal have names of their own.

Inductor of PyTorch 2.11 begins the names of values anew in every masked body with the same prefix.
In a body within a body a value is then computed from what the outer one means by its name, which no
compiler takes. Patched: ``MetalOverrides.masked``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.mps.MetalOverrides.masked(mask, body, other)",
    why="Kernels of PyTorch 2.11 with padding inside padding do not compile.",
    until="PyTorch 2.12 is supported no more",
    before=(2, 13),
)
def scoped_names(original: Any, mask: Any, body: Callable[[], Any], other: Any) -> Any:
    """Give each depth a prefix of its own, as later versions of PyTorch do."""
    from torch._inductor.virtualized import V

    prefix = f"{V.kernel.cse.name_prefix}_scoped"

    def named() -> Any:
        V.kernel.cse.name_prefix = prefix
        return body()

    return original(mask, named, other)
