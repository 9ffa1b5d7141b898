"""Address spaces: mistakes are found, and the library's own kernels have none."""

from __future__ import annotations

import re

import pytest
from address_spaces import check
from compile import CompileError
from support import ROOT

KERNELS = ROOT / "native" / "src" / "mps" / "kernels"

TEXT = """
#include <metal_stdlib>
using namespace metal;
struct Arguments { long n; float scale; };
static float first(threadgroup const float* values) { return values[0]; }
static void put(device float* out, float value) { *out = value; }
template <typename T> static T pair(float a, float b) { return T(a, b); }
static void swap(thread float& a, thread float& b) { const float c = a; a = b; b = c; }
kernel void f(device float* out [[buffer(0)]], constant float2* in [[buffer(1)]],
              constant Arguments& p [[buffer(2)]], device atomic_uint* count [[buffer(3)]],
              threadgroup float* given [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float own[32];
  threadgroup float* half_way = own + 16;
  float x = in[i].x * p.scale, y = 1.0;
  swap(x, y);
  half_way[0] = x + pair<float2>(x, 2).y + float2(1, y).x;
  given[i] = half_way[0];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  put(out + i, first(own) + first(given));
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}
"""

FAULTS = {
    "threadgroup as device": ("put(out + i,", "put(given + i,"),
    "device as threadgroup": ("first(given)", "first(out)"),
    "local as device": ("put(out + i,", "put(&x,"),
    "local as threadgroup": ("first(own)", "first(&x)"),
    "constant as device": ("put(out + i,", "put(&p.scale,"),
    "constant that is written": ("given[i] = half_way[0]", "p.scale = 1"),
    "pointer of the wrong space": ("threadgroup float* half_way", "device float* half_way"),
    "pointer without a space": ("threadgroup float* half_way", "float* half_way"),
    "reference to device memory": ("swap(x, y)", "swap(out[0], y)"),
    "cast between spaces": ("put(out + i,", "put(static_cast<device float*>(given),"),
    "atomic on a constant": ("atomic_fetch_add_explicit(count", "atomic_fetch_add_explicit(&p.n"),
}  # fmt: skip


def test_a_kernel_without_mistakes() -> None:
    check(TEXT)


@pytest.mark.parametrize("fault", FAULTS)
def test_mistakes_are_found(fault: str) -> None:
    old, new = FAULTS[fault]
    assert TEXT.count(old) == 1
    with pytest.raises(CompileError, match=r"program_source:\d+:\d+: error:"):
        check(TEXT.replace(old, new))


def test_templates_are_checked_where_they_are_instantiated() -> None:
    text = """
    template <typename T> static void put(device T* p) { *p = 1; }
    template <typename P> kernel void f(device P* out) { threadgroup P x; put(&x); }
    template [[host_name("f_float")]] kernel void f<float>(device float*);
    """
    with pytest.raises(CompileError, match="error:"):
        check(text)
    check(text.replace("put(&x)", "put(out)"))


# One choice of what the host defines, for each file of kernels; a new file gets the last line.
DEFINES = {
    "attention_rows": "T=float D=64 DV=64 MASK=0 MASK_T=float",
    "attention_tiled": "T=half D=64 DV=64 MASK=1 MASK_T=half",
    "conv_direct": "T=float INDEX=int TRANSPOSED=0",
    "copy": "TO=bfloat FROM=half TO_REAL=1",
    "fft": "FROM=float2 TO=float",
    "gemm": "T=float CONVOLUTION=0 TRANSPOSED=0 INDEX=int A_K_FAST=1 B_K_FAST=0 SIMDGROUP=1",
    "gemm_integer": "T=long",
    "gemm_rows": "T=bfloat ROWS=2 VEC=4 SIMDGROUPS=4",
    "gguf_linear": "T=half KIND=5 ROWS=2",
    "index": "T=float INDEX_T=long",
    "scan": "FROM=float TO=float ACC=float THREADS=256 PRODUCT=0",
    "scatter": "T=float REAL=1 COMBINE=1 SRC=1",
    "small_linear_rows": "T=bfloat S=float ROWS=2 CODES=4",
    "sort": "T=float KEY=uint REAL=1 DESCENDING=0 SHARED=512",
    "": "T=float",
}
FILES = sorted(path.stem for path in KERNELS.glob("*.metal") if path.stem != "prelude")


@pytest.mark.parametrize("name", FILES)
def test_own_kernels(name: str) -> None:
    text = _own(name, DEFINES.get(name, DEFINES[""]))
    check(text)
    assert re.search(r"\bkernel void\b", text)


@pytest.mark.parametrize("choices", ["KIND=4 ROWS=1", "KIND=6 ROWS=4"])
def test_blocks_of_gguf_files(choices: str) -> None:
    check(_own("gguf_linear", f"T=float {choices}"))


@pytest.mark.parametrize("bits", [4, 8])
def test_tiles_of_small_weights(bits: int) -> None:
    check(_own("gemm", f"{DEFINES['gemm']} CODES={bits} S=half"))


def _own(name: str, choices: str) -> str:
    """Kernels of ours as the runtime has them compiled."""
    prelude = (KERNELS / "prelude.metal").read_text()
    defines = "".join(f"#define {choice.replace('=', ' ')}\n" for choice in choices.split())
    return prelude + defines + (KERNELS / f"{name}.metal").read_text()
