"""Let names of arrays of sizes depend on the graph alone.

The wrapper declares an array once for each place that it writes lines to, and knows a place by its
``id()``: of a bound method, which is made anew for each call, or of a buffer of lines that may be
gone. What takes the address of such a one is taken for it. So memory addresses decided which arrays
are declared again, and two lowerings were not the same bytes; an array that the place does not have
would not compile. Patched: ``CppWrapperCpu.codegen_int_array_var`` gets one object for each place,
which lives as long as the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement

_Writeline = Callable[..., None]


@replacement(
    "torch._inductor.codegen.cpp_wrapper_cpu.CppWrapperCpu.codegen_int_array_var("
    "self, int_array, writeline, known_statically, graph)",
    why="Addresses in memory would decide how arrays are named.",
    until="PyTorch 2.14 is the oldest that is not supported",
    before=(2, 15),
)
def steady_array_names(
    original: Any, self: Any, int_array: str, writeline: _Writeline, *args: Any, **kwargs: Any
) -> Any:
    """Know places by objects that stay."""
    places: dict[Any, _Writeline] = vars(self).setdefault("_aotip_places", {})
    key = id(getattr(writeline, "__self__", writeline)), getattr(writeline, "__name__", "")
    return original(self, int_array, places.setdefault(key, writeline), *args, **kwargs)
