"""Generate the same C++ whichever compiler it is for, and where Inductor finds none.

Inductor runs the compiler that it would use to see whose pragmas to write. Ours may be another one,
for another machine. Both gcc and clang take gcc's. Tested with torch 2.11 to 2.15. The patch can go
when the kind of compiler is an option.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aoti_plugins.lowering.inductor.patching import patch, replaced


@patch(
    "torch._inductor.cpp_builder.is_gcc",
    "torch._inductor.cpp_builder.is_msvc_cl",
    why="Without a g++ nothing is generated, and what is depends on this machine's compiler.",
    until="the kind of compiler is an option",
)
def one_compiler() -> Iterator[None]:
    """The compiler is gcc inside the block."""
    from torch._inductor import cpp_builder

    with (
        replaced(cpp_builder, "is_gcc", _yes),
        replaced(cpp_builder, "is_msvc_cl", _no),
    ):
        yield


def _yes(original: Any) -> bool:
    del original
    return True


def _no(original: Any) -> bool:
    del original
    return False
