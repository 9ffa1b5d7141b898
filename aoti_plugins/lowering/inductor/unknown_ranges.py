"""Of a loop's variable nothing is known where PyTorch simplifies sizes; that is no error.

Inductor tells PyTorch the ranges of a loop's variables along with a question. While it looks for
the answer, PyTorch asks itself another about a part of it, without them, and then asserts that it
knows a range, as for rotated vectors that are padded by repeating.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch.fx.experimental.symbolic_shapes._maybe_evaluate_static_worker("
    "expr, symbol_info, unbacked_only, size_oblivious)",
    why="Lowering ends with 'vr must not be None' where indices are simplified.",
    until="ShapeEnv.simplify hands on the ranges that it was asked with",
)
def unknown_ranges(
    original: Any, expr: Any, symbol_info: Any, unbacked_only: bool, size_oblivious: bool
) -> Any:
    """A question about a variable without a range has no answer."""
    if any(one.vr is None for one in symbol_info):
        return None
    return original(expr, symbol_info, unbacked_only, size_oblivious)
