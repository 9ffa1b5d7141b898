"""A check may be given a number.

Some ops compute the shape of their result after they checked that there is something, by
``x.numel() != 0 or count``: of nothing that is a number, which ``torch._check`` refuses.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._check_with(error_type, cond, message)",
    why="upsample_nearest2d of no images would be taken for an op that Inductor cannot lower.",
    until="the shape of upsample_nearest2d can be computed of no images",
)
def checked_counts(original: Any, error_type: Any, cond: Any, message: Any) -> None:
    """A number is true unless it is 0, as elsewhere."""
    original(error_type, bool(cond) if type(cond) is int else cond, message)
