"""Let no pattern of Inductor's match an op with an argument that the pattern does not know.

The matcher drops keyword arguments that a pattern does not have. ``torch.add(x @ y, z, alpha=2)``
so became ``addmm(z, x, y)``, without the factor. Inside the block such an argument has to have its
default, unless it only says where or how the result is stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from aoti_plugins.lowering.inductor.patching import replacement

_OF_STORAGE = {"device", "dtype", "layout", "memory_format", "non_blocking", "pin_memory"}


@replacement(
    "torch._inductor.pattern_matcher._TargetArgsExpr._match(self, node, ctx)",
    "torch._inductor.pattern_matcher.FailedMatch",
    why="Patterns that turn products and sums into one product lose the factor of the sum.",
    until="_TargetArgsExpr._match compares all keyword arguments",
)
def complete_matches(original: Any, self: Any, node: Node, ctx: Any) -> Any:
    """Patterns match only what they know all arguments of."""
    from torch._inductor.pattern_matcher import FailedMatch

    found = original(self, node, ctx)
    if found and _loses_an_argument(node, self.kwargs):
        return FailedMatch("unknown argument: node={}, pattern={}", node, self)
    return found


def _loses_an_argument(node: Node, known: Any) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    defaults = {
        one.name: one.default_value
        for one in node.target._schema.arguments
        if one.name not in _OF_STORAGE
    }
    unknown = {name for name in node.kwargs if name not in known}
    return any(node.kwargs[name] != defaults[name] for name in unknown & defaults.keys())
