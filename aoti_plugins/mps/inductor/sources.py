"""Make the Metal source of generated kernels small, and right where PyTorch's helpers are not.

Inductor writes all of the helper headers that a kernel names into its source, comments included:
tens of kilobytes for an addition, and a compiler on the user's device has to read them. Here only
what a kernel uses stays.

PyTorch's reductions of 64-bit integers within a SIMD group shuffle values from lanes that do not
exist when the number of threads is no multiple of the group's; what they read is undefined, zero
in practice, and wins against negative numbers in ``max`` and over everything in ``prod``. They are
replaced by forms that stop at the last active lane.

Patched: ``MetalKernel.codegen_kernel`` and, per kernel, ``MetalKernel.headers``, which is one set
for the whole process upstream, so that a kernel's source depends on what was generated before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._ordered_set import OrderedSet

from aoti_plugins.errors import PatchError
from aoti_plugins.lowering.inductor.patching import patch, replaced
from aoti_plugins.lowering.inductor.versions import tested_range
from aoti_plugins.mps.inductor.conditions import (
    without_empty_conditions,
    without_known_conditions,
)
from aoti_plugins.mps.inductor.declarations import Declaration, declarations

_SOURCE = re.compile(r'(?P<before>R"MTL\()(?P<source>.*)(?P<after>\)MTL")', re.DOTALL)

# It is used before what is left of the helpers declares it.
_HELPERS_NAMESPACE = "namespace c10 { namespace metal {} }"

# Lanes from 0 to the number of active ones are active: threads are numbered without gaps, and the
# second step of a reduction takes the first ones.
_ACTIVE_LANES = """\
template <typename Combine>
inline long aotip_combine_active_lanes(long val, Combine combine) {
const ushort lane = ::metal::simd_prefix_exclusive_sum(ushort(1));
const ushort active = ::metal::simd_sum(ushort(1));
for (ushort i = simdgroup_size / 2; i > 0; i /= 2) {
const long other = as_type<long>(::metal::simd_shuffle_down(as_type<int2>(val), i));
if (lane + i < active) {
val = combine(val, other);
}
}
return simd_broadcast(val, 0);
}
struct AotipSum { long operator()(long a, long b) const { return a + b; } };
struct AotipProd { long operator()(long a, long b) const { return a * b; } };
struct AotipMax { long operator()(long a, long b) const { return ::metal::max(a, b); } };
struct AotipMin { long operator()(long a, long b) const { return ::metal::min(a, b); } };"""
_OF_WIDE_INTEGERS = frozenset(("simd_shuffle_and_fill_down", "long"))
_COMBINE = {
    "simd_sum": "AotipSum",
    "simd_prod": "AotipProd",
    "simd_max": "AotipMax",
    "simd_min": "AotipMin",
}


@patch(
    "torch._inductor.codegen.mps.MetalKernel.__init__(self, tiling, kwargs)",
    "torch._inductor.codegen.mps.MetalKernel.codegen_kernel(self, name)",
    why="Kernels' sources are large, and some reductions of integers wrong.",
    until="Inductor names helpers one by one, and its reductions know active lanes",
)
def small_sources() -> Iterator[None]:
    """Let every kernel's source have what it uses, and nothing else."""
    from torch._inductor.codegen.mps import MetalKernel

    with (
        replaced(MetalKernel, "__init__", _with_own_headers),
        replaced(MetalKernel, "codegen_kernel", _codegen_kernel),
    ):
        yield


def _with_own_headers(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    self.headers = OrderedSet(["utils"])


def _codegen_kernel(original: Any, *args: Any, **kwargs: Any) -> str:
    source, found = _SOURCE.subn(_with_small_source, original(*args, **kwargs))
    if not found:
        raise PatchError(
            f"PyTorch {torch.__version__} writes Metal source in another form than "
            f"PyTorch {tested_range()}, so that it cannot be made right"
        )
    return source


def _with_small_source(found: re.Match[str]) -> str:
    return found["before"] + small_source(found["source"]) + found["after"]


def small_source(source: str) -> str:
    """A kernel's source without what the kernel does not use.

    Args:
        source: Metal source with one kernel and its helpers.
    """
    found = without_known_conditions(declarations(source))
    used = [one.text for one in _used(_repaired(found))]
    return "\n".join(["", _HELPERS_NAMESPACE, *used, ""])


def _used(found: list[Declaration]) -> list[Declaration]:
    """What the kernel needs, and what needs no name; helpers may have several declarations."""
    needed = [not one.names for one in found]
    words = set().union(*(one.words for one, stays in zip(found, needed, strict=True) if stays))
    grows = True
    while grows:
        grows = False
        for index, one in enumerate(found):
            if not needed[index] and one.names & words:
                needed[index] = grows = True
                words |= one.words
    kept = [one for one, stays in zip(found, needed, strict=True) if stays]
    return without_empty_conditions(kept)


def _repaired(found: list[Declaration]) -> list[Declaration]:
    repaired: list[Declaration] = []
    for one in found:
        combine = next((_COMBINE[name] for name in one.names if name in _COMBINE), None)
        if combine is None or not one.words >= _OF_WIDE_INTEGERS:
            repaired.append(one)
            continue
        if not any("aotip_combine_active_lanes" in before.names for before in repaired):
            repaired += declarations(_ACTIVE_LANES)
        head, _, _ = one.text.partition("{")
        body = f"{{\nreturn aotip_combine_active_lanes(val, {combine}());\n}}"
        repaired += declarations(head + body)
    return repaired
