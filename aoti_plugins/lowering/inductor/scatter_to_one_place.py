"""Vectorize a scatter whose places are all the same one, or lie in another order than its values.

A sum by index into a dimension of size 1 (``x.index_add(0, index, y)`` with one row) has an index
that does not vary from lane to lane. With ``cpp.dynamic_threads`` Inductor's vectorized atomic
store asserts that it does, so the op could not be lowered. Inside the block such an index is spread
over all lanes.

Where places and values lie in two orders, as with ``x.t().index_add(0, index, y)``, a tile of both
is computed at once. In most versions of PyTorch its store adds the row of the tile to the index,
and what makes a vector of the index adds it once more: values went, silently, to other places.
Inside the block it is added once.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.cpp.CppVecKernel.store(self, name, index, value, mode)",
    "torch._inductor.codegen.cpp.CppVecOverrides.index_expr(expr, dtype)",
    "torch._inductor.codegen.cpp.CppTile2DOverrides.index_expr(expr, dtype)",
    "torch._inductor.codegen.cpp.CppTile2DKernel.store(self, name, index, value, mode)",
    why="A vectorized scatter to a single place fails an assertion, one of a tile is wrong.",
    until="CppVecKernel.store spreads such an index itself, and CppTile2DKernel shifts it once",
)
def scatter_to_one_place(
    original: Any, self: Any, name: str, index: Any, value: Any, mode: Any = None
) -> None:
    """Generate vectorized CPU kernels for scatters to one place too."""
    from torch._inductor.codegen.cpp import CppTile2DOverrides, CppVecOverrides
    from torch._inductor.virtualized import OpsValue, V

    index_expr = CppVecOverrides.index_expr

    def vector_index(expr: Any, dtype: Any) -> Any:
        index = index_expr(expr, dtype)
        index = index.value if isinstance(index, OpsValue) else index
        return index if index.is_vec else V.kernel.broadcast(index)

    def tile_index(expr: Any, dtype: Any) -> Any:
        is_shifted = V.kernel.inner_itervar() in expr.free_symbols
        return vector_index(expr if is_shifted else V.kernel.transform_indexing(expr), dtype)

    if mode != "atomic_add":
        original(self, name, index, value, mode)
        return
    with (
        mock.patch.object(CppVecOverrides, "index_expr", staticmethod(vector_index)),
        mock.patch.object(CppTile2DOverrides, "index_expr", staticmethod(tile_index)),
    ):
        original(self, name, index, value, mode)
