"""Compare truth values that are known while code is generated.

Inductor tells by ``<`` whether ranges of values are apart, which sympy has not for truth values:
comparing a tensor that is true throughout with one that is false throughout ended the lowering,
where the range was asked for. Patched: ``SymPyValueRangeAnalysis.eq``, which ``ne`` calls too.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch.utils._sympy.value_ranges.SymPyValueRangeAnalysis.eq(a, b)",
    why="Comparing truth values that are known, and not the same, ends the lowering.",
    until="SymPyValueRangeAnalysis.eq takes truth values that differ",
)
def known_truths(original: Any, a: Any, b: Any) -> Any:
    """Know the result where both truth values are known."""
    import sympy
    from torch.utils._sympy.value_ranges import ValueRanges

    a, b = ValueRanges.wrap(a), ValueRanges.wrap(b)
    if not (a.is_bool or b.is_bool):
        return original(a, b)
    if a.is_singleton() and b.is_singleton():
        return ValueRanges.wrap(sympy.true if a.lower == b.lower else sympy.false)
    return ValueRanges.unknown_bool()
