"""Give constants of 64 bits their type in generated Metal.

Inductor writes ``auto tmp = 5;`` for a constant of int64, which makes it an ``int``; ``where``
converts its other operand to the type of the first one, so that ``torch.where(x > 0, 5, x)`` cut
``x`` to 32 bits, an index on its way to a table too. Patched: ``MetalOverrides.constant``.
"""

from __future__ import annotations

from typing import Any

import torch

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.mps.MetalOverrides.constant(val, dtype)",
    why="Numbers of 64 bits would be cut to 32 where a constant is chosen instead of them.",
    until="Inductor gives constants in Metal their dtype",
)
def wide_constants(original: Any, val: bool | float | int, dtype: torch.dtype) -> Any:
    """Write constants of int64 as ``long``."""
    text = original(val, dtype)
    return f"static_cast<long>({text})" if dtype == torch.int64 else text
