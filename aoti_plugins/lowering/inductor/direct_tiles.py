"""Transpose no tile whose place data decides.

A tile is transposed before the loop over its rows. Where an index that was read inside of that loop
is part of the place, as in a sum by index into a transposed tensor, the C++ named a variable that
is not there yet, and did not compile. Patched: ``CppTile2DKernel.need_vec_transpose``.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.cpp.CppTile2DKernel.need_vec_transpose(self, index)",
    why="A sum by index into a transposed tensor does not compile.",
    until="PyTorch 2.13 is the oldest that is supported",
    before=(2, 13),
)
def direct_tiles(original: Any, self: Any, index: Any) -> bool:
    """Transpose only what lies where loops alone say."""
    from torch.utils._sympy.symbol import SymT, free_symbol_is_type

    return not free_symbol_is_type(index, SymT.TMP) and bool(original(self, index))
