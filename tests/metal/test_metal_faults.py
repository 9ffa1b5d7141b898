"""Faults planted in kernels: each is noticed, and its twin without the fault passes.

Noticed is an error of the dispatch, or a wrong result under at least one schedule. The first column
says which; where it is an error, all schedules must give it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from metal_library import DispatchError, Library, schedule

SCHEDULES = ("forward", "reverse", "shuffle:1", "shuffle:2")

ROWS = """
using namespace metal;
static float total(threadgroup float* parts, float x, uint i) {
  const float part = simd_sum(x);
  if (i % 32 == 0) {
    parts[i / 32] = part;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float all = parts[0] + parts[1] + parts[2];
  threadgroup_barrier(mem_flags::mem_threadgroup);  // parts may be used again
  return all;
}
kernel void rows(device float* out, constant float* in, constant float* weight, constant int& n,
                 uint2 at [[thread_position_in_grid]], uint i [[thread_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float parts[3];
  threadgroup float shared[96];
  const float x = int(at.y) < n ? in[at.y * 96 + i] : 0;
  shared[i] = x * weight[i];
  const float mean = total(parts, x, i) / 96;
  const float square = total(parts, x * x, i) / 96;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float neighbour = shared[95 - i];
  const float other = simd_shuffle_xor(x, 1);
  float most = simd_max(abs(x));
  if (int(at.y) < n) {
    out[at.y * 96 + i] = (x - mean) + square + neighbour + other + most;
  }
}
"""

SORT = """
using namespace metal;
kernel void pairs(device float* out, constant float* in, uint i [[thread_index_in_threadgroup]]) {
  threadgroup float values[64];
  values[i] = in[i];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  const float other = values[i ^ 1];
  out[i] = i % 2 == 0 ? min(values[i], other) : max(values[i], other);
}
"""

PRODUCT = """
using namespace metal;
kernel void product(device float* c, constant half* a, constant half* b,
                    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup half tile[8 * 10];
  simdgroup_half8x8 left, right;
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0);
  simdgroup_load(left, a, 8);
  simdgroup_store(left, tile, 10);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_load(left, tile, 10, ulong2(0, 0), lane < 32);
  simdgroup_load(right, b, 8, ulong2(0, 0), true);
  simdgroup_multiply_accumulate(sum, left, right, sum);
  simdgroup_store(sum, c, 8);
}
"""


def run_rows(library: Library) -> bool:
    """Three rows in memory, and a grid of four."""
    torch.manual_seed(0)
    x, weight = torch.randn(3, 96), torch.randn(96)
    out = torch.full_like(x, float("nan"))
    library["rows"]([out, x, weight, (3).to_bytes(4, "little")], [96, 4], [96, 1])
    lanes = x.view(3, 3, 32)
    expected = x - x.mean(1, True) + x.square().mean(1, True) + (x * weight).flip(1)
    expected += x.view(3, 48, 2).flip(2).reshape(3, 96)
    expected += lanes.abs().amax(2, True).expand_as(lanes).reshape(3, 96)
    return torch.allclose(out, expected, rtol=1e-5, atol=1e-5)


def run_pairs(library: Library) -> bool:
    x = torch.randn(64)
    out = torch.full_like(x, float("nan"))
    library["pairs"]([out, x], [64])
    return torch.equal(out, x.view(32, 2).sort(1).values.flatten())


def run_product(library: Library) -> bool:
    torch.manual_seed(0)
    a, b = torch.randn(8, 8).half(), torch.randn(8, 8).half()
    c = torch.full((8, 8), float("nan"))
    library["product"]([c, a, b], [32])
    return torch.allclose(c, a.float().t() @ b.float().t(), atol=1e-4)


@dataclass(frozen=True)
class Fault:
    """One replacement in a kernel's text, and how it is to be noticed."""

    name: str
    text: str
    run: Callable[[Library], bool]
    old: str
    new: str
    error: str = ""  # of the dispatch; empty: a wrong result

    def __str__(self) -> str:
        return self.name


BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
FAULTS = [
    Fault("removed barrier before a read", ROWS, run_rows,
          f"  }}\n  {BARRIER}\n  const float all", "  }\n  const float all",
          "reads byte .* of parts, .*without a barrier"
          "|writes byte .* of parts, which .* reads without a barrier"),
    Fault("removed barrier before a second use", ROWS, run_rows,
          f"{BARRIER}  // parts may be used again", "",
          "writes byte .* of parts, which .* reads without a barrier"
          "|reads byte .* of parts, which .* writes"),
    Fault("early return before a barrier", ROWS, run_rows,
          "const float mean", "if (i == 95) return;\n  const float mean",
          "divergent barrier: line .* is reached by 95 of 96 threads"),
    Fault("barrier in a branch", ROWS, run_rows,
          f"  {BARRIER}\n  const float neighbour",
          f"  if (i < 40) {{ {BARRIER} }} else {{\n {BARRIER} }}\n  const float neighbour",
          "divergent barrier: some threads wait at line"),
    Fault("wrong stride", ROWS, run_rows, "in[at.y * 96 + i]", "in[at.y * 95 + i]"),
    Fault("stride that leaves the buffer", ROWS, run_rows,
          "in[at.y * 96 + i]", "in[at.y * 128 + i]", "reads 4 bytes at offset .* of buffer 1"),
    Fault("threadgroup memory that nobody writes", ROWS, run_rows,
          "shared[i] = x * weight[i];", "if (i != 7) shared[i] = x * weight[i];"),
    Fault("one simdgroup reads what another writes", SORT, run_pairs,
          "values[i ^ 1]", "values[i ^ 33]", "of values, which .* without a barrier"),
    Fault("removed simdgroup_barrier", SORT, run_pairs,
          "simdgroup_barrier(mem_flags::mem_threadgroup);", "",
          "of values, which .* without a barrier"),
    Fault("index outside of a threadgroup array", ROWS, run_rows,
          "shared[95 - i]", "shared[96 - i]", "line 23: index 96 is outside of the array"),
    Fault("pointer outside of a threadgroup array", ROWS, run_rows,
          "parts[i / 32] = part", "parts[i / 16] = part",
          "writes 4 bytes at offset 16 of parts, which has 12 bytes"),
    Fault("missing bounds check of a store", ROWS, run_rows, "if (int(at.y) < n) {", "{",
          "writes 4 bytes at offset .* of buffer 0"),
    Fault("missing bounds check of a load", ROWS, run_rows, "int(at.y) < n ?", "true ?",
          "reads 4 bytes at offset .* of buffer 1"),
    Fault("off by one in a bounds check", ROWS, run_rows, "if (int(at.y) < n", "if (int(at.y) <= n",
          "writes 4 bytes at offset .* of buffer 0"),
    Fault("off by one in the other direction", ROWS, run_rows, "if (int(at.y) < n",
          "if (int(at.y) + 1 < n"),
    Fault("wrong type of a pointer", ROWS, run_rows, "constant float* in", "constant int* in"),
    Fault("wide type of a pointer", ROWS, run_rows, "constant float* weight",
          "constant long* weight", "reads 8 bytes at offset .* of buffer 2, which has 384 bytes"),
    Fault("simdgroup operation of some lanes", ROWS, run_rows,
          "float most = simd_max(abs(x));",
          "float most = 0; if (lane < 20) most = simd_max(abs(x));"),
    Fault("inactive lane that is read", ROWS, run_rows,
          "const float other = simd_shuffle_xor(x, 1);",
          "float other = 0; if (lane != 5) other = simd_shuffle_xor(x, 1);"),
    Fault("division by an integer that is 0", ROWS, run_rows,
          "if (int(at.y) < n)", "if (int(at.y) / (n - 3) < 1)",
          "division of an integer by zero"),
    Fault("matrix that is not transposed", PRODUCT, run_product,
          "b, 8, ulong2(0, 0), true", "b, 8"),
    Fault("wrong stride of a matrix", PRODUCT, run_product,
          "simdgroup_load(left, tile, 10", "simdgroup_load(left, tile, 8"),
    Fault("stride of a matrix that leaves its tile", PRODUCT, run_product,
          "simdgroup_store(left, tile, 10)", "simdgroup_store(left, tile, 11)",
          "writes 2 bytes at offset 1[67].* of tile, which has 160 bytes"),
    Fault("matrix operation without a simdgroup_barrier", PRODUCT, run_product,
          "simdgroup_barrier(mem_flags::mem_threadgroup);", "",
          "of tile, which .* without a barrier"),
    Fault("matrix operation in a branch", PRODUCT, run_product,
          "simdgroup_multiply_accumulate", "if (lane != 9) simdgroup_multiply_accumulate",
          "simdgroup_multiply_accumulate is reached by 31 of 32 lanes"),
]  # fmt: skip


def right_under_all_schedules(library: Library, run: Callable[[Library], bool]) -> bool:
    right = []
    for name in SCHEDULES:
        with schedule(name):
            right.append(run(library))
    return all(right)


@pytest.mark.parametrize(
    ("text", "run"),
    [(ROWS, run_rows), (SORT, run_pairs), (PRODUCT, run_product)],
    ids=["rows", "pairs", "product"],
)
def test_without_a_fault_kernels_are_right(
    compiled: Callable[[str], Library], text: str, run: Callable[[Library], bool]
) -> None:
    assert right_under_all_schedules(compiled(text), run)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_noticed(compiled: Callable[[str], Library], fault: Fault) -> None:
    assert fault.text.count(fault.old) == 1, "the fault has one place in the text"
    library = compiled(fault.text.replace(fault.old, fault.new))
    if fault.error:
        for name in SCHEDULES:
            with schedule(name), pytest.raises(DispatchError, match=fault.error):
                fault.run(library)
    else:
        assert not right_under_all_schedules(library, fault.run)
