"""Say of each value of a vectorized kernel what kind of vector it is.

A masked block may give truth values from integers of 64 bits, which are two vectors, where its
other value is one. Older versions of PyTorch mark the wrong value as a vector after a masked block,
and take a mask that is one truth value for all lanes for a vector's. Whether places are 0 was a
vector of truth values, counted up like numbers. None of it compiled. Patched: three functions of
``torch._inductor.codegen.cpp``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aoti_plugins.lowering.inductor.patching import patch, replaced, replacement


@patch(
    "torch._inductor.codegen.cpp.CppVecOverrides.masked(mask, body, other)",
    "torch._inductor.codegen.cpp.CppVecKernel.indirect_assert(self, var, lower, upper, mask)",
    why="PyTorch 2.11 and 2.12 mix up vectors and numbers in masked blocks and checks of indices.",
    until="PyTorch 2.12 is supported no more",
    before=(2, 13),
)
def vector_flags() -> Iterator[None]:
    """Masked values and masks are what they are said to be."""
    from torch._inductor.codegen.cpp import CppVecKernel, CppVecOverrides

    with (
        replaced(CppVecOverrides, "masked", _masked),
        replaced(CppVecKernel, "indirect_assert", _indirect_assert),
    ):
        yield


def _masked(original: Any, mask: Any, body: Callable[[], Any], other: Any) -> Any:
    made: list[tuple[Any, bool]] = []

    def watched() -> Any:
        result = body()
        made.append((result, result.is_vec))
        return result

    found = original(mask, watched, other)
    for result, is_vector in made:
        found.is_vec = result.is_vec  # it is said of what is inside of the block
        result.is_vec = is_vector
    return found


def _indirect_assert(
    original: Any, self: Any, var: Any, lower: Any, upper: Any, mask: Any = None
) -> str:
    if mask and var.is_vec and not mask.is_vec:
        mask = _Spread(f"{self._get_mask_type(var.dtype)}::from({mask})")
    return str(original(self, var, lower, upper, mask))


@replacement(
    "torch._inductor.codegen.cpp.CppVecOverrides.masked(mask, body, other)",
    why="Truth values of a masked block do not compile where integers were compared for them.",
    until="CppVecOverrides.masked makes the same mask type of both values",
)
def masked_truths(original: Any, mask: Any, body: Callable[[], Any], other: Any) -> Any:
    """Truth values of masked blocks are those beside floats."""
    import torch
    from torch._inductor.virtualized import V

    def of_floats() -> Any:
        result = body()
        if not result.is_vec or result.dtype != torch.bool:
            return result
        vectors = V.kernel._get_num_vectors(torch.float)
        cast = f"{result}.template cast<float,{vectors}>()"
        found = V.kernel.cse.generate(V.kernel.compute, cast, dtype=torch.bool)
        found.is_vec = True
        return found

    return original(mask, of_floats, other)


@replacement(
    "torch._inductor.codegen.cpp.CppVecOverrides.index_expr(expr, dtype)",
    why="Truth values of places are counted up from the first one's, as if they were numbers.",
    until="CppVecOverrides.index_expr makes no arange of truth values",
)
def truths_of_places(original: Any, expr: Any, dtype: Any) -> Any:
    """Places become truth values one by one."""
    import torch
    from torch._inductor.virtualized import ops

    if dtype != torch.bool:
        return original(expr, dtype)
    found = ops.to_dtype(ops.index_expr(expr, torch.int64), torch.bool)
    return getattr(found, "value", found)


class _Spread(str):
    """The text of a mask of all lanes."""

    __slots__ = ()
    is_vec = True
