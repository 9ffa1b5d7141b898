"""Make Inductor write vector code for a named instruction set instead of this machine's.

Inductor picks the widest set that this host can run, by compiling and running a probe. A program is
made for other machines too, so the set comes from the target. Tested with torch 2.11 to 2.15. The
patch can go when the set is an option (``cpp.simdlen`` only narrows what the host offers).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch

NAMES = ("avx512", "avx2", "sve256", "neon", "scalar")


def _vec_sve256() -> object:
    from torch._inductor import cpu_vec_isa

    older = getattr(cpu_vec_isa, "VecSVE256", None)  # PyTorch 2.11
    return older() if older is not None else cpu_vec_isa.VecSVE(256)


@patch(
    "torch._inductor.lowering.lowerings",
    "torch._inductor.cpu_vec_isa.pick_vec_isa",
    "torch._inductor.codecache.pick_vec_isa",
    "torch._inductor.codegen.cpp_micro_gemm.pick_vec_isa",
    why="Vector code would be for this machine.",
    until="the instruction set is an option",
)
def vector_isa(name: str) -> Iterator[None]:
    """Generate CPU kernels for one instruction set inside the block.

    Args:
        name: one of ``NAMES``.

    Raises:
        KeyError: unknown name.
    """
    import torch._inductor.lowering  # noqa: F401  (cpp_micro_gemm cannot be imported before it)
    from torch._inductor import codecache, cpu_vec_isa
    from torch._inductor.codegen import cpp_micro_gemm

    isa = {
        "avx512": cpu_vec_isa.VecAVX512,
        "avx2": cpu_vec_isa.VecAVX2,
        "sve256": _vec_sve256,
        "neon": cpu_vec_isa.VecNEON,
        "scalar": cpu_vec_isa.InvalidVecISA,
    }[name]()
    # A set answers False when this host cannot run it; the target's machine can.
    answer = type(
        f"Target{type(isa).__name__}", (type(isa),), {"__bool__": lambda _: name != "scalar"}
    )
    chosen = answer()

    def pick() -> cpu_vec_isa.VecISA:
        return chosen

    with contextlib.ExitStack() as stack:
        for module in (cpu_vec_isa, codecache, cpp_micro_gemm):
            stack.enter_context(mock.patch.object(module, "pick_vec_isa", pick))
        yield
