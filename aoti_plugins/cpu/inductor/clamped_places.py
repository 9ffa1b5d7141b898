"""Strides of indices with clamped places, such as those of ``max_pools``.

To choose what becomes a vector, and how it is read, Inductor asks for each index how far the next
element lies when one variable is one more. Sympy answers by simplifying the index, which takes
seconds for one with minima and maxima of other variables, and changes nothing in the answer.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from aoti_plugins.lowering.inductor.patching import replacement

if TYPE_CHECKING:
    import sympy


@replacement(
    "torch._inductor.codegen.cpp.stride_at_vec_range(index, var, vec_length)",
    why="Each maximum over windows takes some seconds more to generate.",
    until="Inductor does not simplify what is the same for all values of the variable",
)
def clamped_places(
    original: Any, index: sympy.Expr, var: sympy.Symbol, vec_length: int | None = None
) -> sympy.Expr:
    """The stride of ``index`` along ``var``: 0 and 1 are known as such."""
    found: sympy.Expr = _stride(original, index, var, vec_length)
    return found


@functools.lru_cache(maxsize=4096)
def _stride(original: Any, index: Any, var: Any, vec_length: int | None) -> Any:
    import sympy

    clamped = index.atoms(sympy.Min, sympy.Max)
    if not clamped:
        return original(index, var, vec_length)
    if var not in index.free_symbols:
        return sympy.S.Zero
    if any(var in place.free_symbols for place in clamped):  # another one from place to place
        return index.xreplace({var: var + 1}) - index
    names = {place: sympy.Dummy(integer=True) for place in clamped}
    stride = original(index.xreplace(names), var, vec_length)
    return stride.xreplace({name: place for place, name in names.items()})
