"""Types, functions, built-in arguments, atomics and threadgroup memory, under several schedules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from metal_library import DispatchError, Library, schedule

TEXT = """
#include <metal_stdlib>
#include <metal_atomic>
using namespace metal;

kernel void rounding(device half* h, device bfloat* b, device float* f, constant float* x,
                     uint i [[thread_position_in_grid]]) {
  h[i] = half(x[i]);
  b[i] = bfloat(x[i]);
  const bfloat tenth = bfloat(0.1);
  f[3 * i] = float(bfloat(x[i]) * tenth);
  f[3 * i + 1] = float(half(x[i]) * half(x[i]) - half(1));
  f[3 * i + 2] = 0.1 + x[i];
}

kernel void vectors(device float4* out, constant float4* x, device packed_float3* three,
                    constant int4* n, device int* flags) {
  float4 a = x[0];
  a.xy = a.zw * 2;
  a.xyz += float3(1, a.yz);
  out[0] = a;
  out[1] = float4(float2(1, 2), float2(3, 4)).wzyx;
  out[2] = clamp(x[1], -1.0, 1.0) + float4(n[0] % 3);
  out[3] = select(x[0], x[1], x[1] > x[0]);
  out[4] = float4(dot(x[0], x[1]), length(float2(3, 4)), max(x[0], x[1]).w,
                  fma(x[0], x[1], x[1]).z);
  three[1] = x[0].xyz;
  flags[0] = any(x[0] > 2.5);
  flags[1] = all(x[0] > 2.5);
  flags[2] = (n[0] << 2).w;
  flags[3] = as_type<int>(1.0);
  flags[4] = as_type<ushort2>(0x00020001).y;
  flags[5] = int(sizeof(float3)) * 100 + int(sizeof(packed_float3));
}

kernel void integers(device long* out, constant int& a, constant uint& b, constant char& c) {
  out[0] = clz(b) * 100 + ctz(b);
  out[1] = popcount(b);
  out[2] = mulhi(b, b);
  out[3] = a / 2 * 100 + a % 3;
  out[4] = rotate(b, 4u);
  out[5] = absdiff(a, -a);
  out[6] = addsat(c, c);
  out[7] = c;
  out[8] = reverse_bits(b);
  out[9] = abs(a) + sign(a);
  out[10] = numeric_limits<short>::lowest() + long(numeric_limits<uint>::max());
  out[11] = extract_bits(b, 4u, 8u);
}

kernel void positions(device uint* out, uint3 at [[thread_position_in_grid]],
                      ushort3 in_group [[thread_position_in_threadgroup]],
                      uint2 group [[threadgroup_position_in_grid]],
                      uint index [[thread_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]],
                      uint simdgroup [[simdgroup_index_in_threadgroup]],
                      uint2 size [[threads_per_threadgroup]], uint3 grid [[threads_per_grid]],
                      uint3 groups [[threadgroups_per_grid]],
                      uint simdgroups [[simdgroups_per_threadgroup]],
                      uint width [[threads_per_simdgroup]],
                      uint2 nominal [[dispatch_threads_per_threadgroup]]) {
  device uint* row = out + 14 * (at.x + grid.x * at.y);
  row[0] = in_group.x; row[1] = in_group.y; row[2] = group.x; row[3] = group.y; row[4] = index;
  row[5] = lane; row[6] = simdgroup; row[7] = size.x; row[8] = size.y; row[9] = groups.x;
  row[10] = groups.y; row[11] = simdgroups; row[12] = width; row[13] = nominal.x;
}

kernel void count(device atomic_uint* counts, device atomic_float* sum, device atomic_int* most,
                  device atomic_uint* swapped, constant int* x,
                  uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&counts[x[i]], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(sum, 0.5, memory_order_relaxed);
  atomic_fetch_max_explicit(most, x[i], memory_order_relaxed);
  uint old = atomic_load_explicit(swapped, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(swapped, &old, old * 2 + 1, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}

kernel void reversed(device float* out, constant float* x,
                     threadgroup float* given [[threadgroup(0)]],
                     uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]],
                     uint at [[thread_position_in_grid]]) {
  threadgroup float own[2][64], sum;
  threadgroup atomic_uint arrived;
  own[0][i] = x[at];
  given[i] = 2 * x[at];
  if (i == 0) {
    sum = 0;
    atomic_store_explicit(&arrived, 0, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  own[1][i] = own[0][n - 1 - i];
  atomic_fetch_add_explicit(&arrived, 1, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) {
    for (uint k = 0; k < n; ++k) {
      sum += given[k];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[at] = own[1][i] + sum + atomic_load_explicit(&arrived, memory_order_relaxed);
}

#define SCALE 3
#define TIMES(x) ((x) * SCALE + 0.25)
struct Pair { float first; int second; };
constant float TABLE[3] = {1, 2, 4};
kernel void values(device float* out, constant Pair& pair, constant float* more [[buffer(7)]],
                   uint i [[thread_position_in_grid]]) {
  out[i] = TIMES(pair.first) + pair.second * TABLE[i] + more[i];
}

kernel void poisoned(device float* out, uint i [[thread_index_in_threadgroup]]) {
  threadgroup float memory[32];
  if (i > 32) memory[i - 33] = 1;
  out[i] = memory[i];
}

kernel void deep(device int* out, uint i [[thread_position_in_grid]]) {
  int local[20000];
  for (uint k = 0; k < 20000; ++k) local[k] = i + k;
  threadgroup_barrier(mem_flags::mem_none);
  out[i] = local[out[i]];
}

kernel void large(device float* out, uint i [[thread_position_in_grid]]) {
  threadgroup float memory[8193];
  memory[i] = 1;
  out[i] = memory[i];
}
"""


@pytest.fixture(scope="module")
def library(compiled: Callable[[str], Library]) -> Library:
    return compiled(TEXT)


def test_halves_and_bfloats_round_to_nearest_even_after_each_operation(library: Library) -> None:
    torch.manual_seed(0)
    edges = [0.0, -0.0, 1.00048828125, 1.00390625, 1.01171875, 65519.9, 65520.0, 3.4e38, 1e-8]
    x = torch.cat([torch.tensor([*edges, float("inf"), float("nan")]), torch.randn(500)])
    h = torch.empty(len(x), dtype=torch.float16)
    b = torch.empty(len(x), dtype=torch.bfloat16)
    f = torch.empty(len(x), 3)
    library["rounding"]([h, b, f, x], [len(x)])
    torch.testing.assert_close(h, x.half(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(b, x.bfloat16(), rtol=0, atol=0, equal_nan=True)
    tenth = torch.tensor(0.1, dtype=torch.bfloat16)
    expected = [(x.bfloat16() * tenth).float(), (x.half() * x.half() - 1).float(), 0.1 + x]
    torch.testing.assert_close(f, torch.stack(expected, 1), rtol=0, atol=0, equal_nan=True)


def test_vectors(library: Library) -> None:
    x = torch.tensor([[1.0, 2, 3, 4], [-5, 6, 0.5, -0.25]])
    n = torch.tensor([1, 2, 3, -4], dtype=torch.int32)
    out, three = torch.zeros(5, 4), torch.full((2, 3), -1.0)
    flags = torch.zeros(6, dtype=torch.int32)
    library["vectors"]([out, x, three, n, flags], [1])
    assert out[0].tolist() == [7, 16, 6, 4]
    assert out[1].tolist() == [4, 3, 2, 1]
    assert out[2].tolist() == [0, 3, 0.5, -1.25]
    assert out[3].tolist() == [1, 6, 3, 4]
    assert out[4].tolist() == [-5 + 12 + 1.5 - 1, 5, 4, 2]
    assert three.tolist() == [[-1, -1, -1], [1, 2, 3]]
    assert flags.tolist() == [1, 0, -16, 0x3F800000, 2, 1612]


def test_integers(library: Library) -> None:
    out = torch.zeros(12, dtype=torch.int64)
    a, b, c = ((-7).to_bytes(4, "little", signed=True), (0x80010).to_bytes(4, "little"), b"\x9c")
    library["integers"]([out, a, b, c], [1])
    expected = [1204, 2, (0x80010 * 0x80010) >> 32, -301, 0x800100, 14, -128, -100, 0x08001000, 6]
    assert out.tolist() == [*expected, -32768 + 2**32 - 1, 1]


@pytest.mark.usefixtures("each_schedule")
def test_positions(library: Library) -> None:
    width, height, group = 11, 5, (8, 4)
    out = torch.full((height, width, 14), -1, dtype=torch.int32)
    library["positions"]([out], [width, height], group)
    for y in range(height):
        for x in range(width):
            gx, gy = x // group[0], y // group[1]
            sx, sy = min(group[0], width - gx * group[0]), min(group[1], height - gy * group[1])
            index = x % group[0] + y % group[1] * sx
            expected = [x % 8, y % 4, gx, gy, index, index % 32, index // 32, sx, sy, 2, 2]
            assert out[y, x].tolist() == [*expected, (sx * sy + 31) // 32, 32, 8]


@pytest.mark.usefixtures("each_schedule")
def test_atomics(library: Library) -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 7, (300,), dtype=torch.int32)
    counts = torch.zeros(7, dtype=torch.int32)
    total, most = torch.zeros(1), torch.full((1,), -1, dtype=torch.int32)
    swapped = torch.zeros(1, dtype=torch.int32)
    library["count"]([counts, total, most, swapped, x], [300], [64])
    assert counts.tolist() == torch.bincount(x, minlength=7).tolist()
    assert (total.item(), most.item()) == (150, x.max().item())
    assert swapped.item() == -1  # all of its 32 bits were shifted in


@pytest.mark.usefixtures("each_schedule")
def test_threadgroup_memory_of_kernels_and_arguments(library: Library) -> None:
    x = torch.arange(192.0)
    out = torch.full_like(x, float("nan"))
    library["reversed"]([out, x], [192], [64], group_memory=[256])
    rows = x.view(3, 64)
    assert torch.equal(out.view(3, 64), rows.flip(1) + 2 * rows.sum(1, keepdim=True) + 64)


def test_values_macros_and_tables(library: Library) -> None:
    out, more = torch.zeros(3), torch.tensor([0.5, 1.5, 2.5])
    pair = torch.tensor([2.0]).numpy().tobytes() + (10).to_bytes(4, "little")
    library["values"]([out, pair, None, None, None, None, None, more], [3])
    assert out.tolist() == [16.75, 27.75, 48.75]


def test_memory_that_nobody_wrote_is_poison(library: Library) -> None:
    seen = set()
    for name in ("forward", "reverse", "shuffle"):
        out = torch.zeros(32)
        with schedule(name):
            library["poisoned"]([out], [32])
        assert len(set(out.view(torch.int32).tolist())) == 1
        seen.add(out.view(torch.int32)[0].item())
    assert seen == {-0x32323233, 0x7F7F7F7F, -1}


@pytest.mark.parametrize(
    ("name", "threads", "message"),
    [
        ("deep", 40, "more than 65536 bytes of variables in one thread"),
        ("large", 8, "32772 bytes of threadgroup memory, more than 32768"),
    ],
)
def test_limits(library: Library, name: str, threads: int, message: str) -> None:
    with pytest.raises(DispatchError, match=message):
        library[name]([torch.zeros(threads)], [threads])


def test_dispatches_that_cannot_be(library: Library) -> None:
    out = torch.zeros(8)
    with pytest.raises(DispatchError, match=r"kernel poisoned, .*: a grid or threadgroup of no"):
        library["poisoned"]([out], [0], [1])
    with pytest.raises(DispatchError, match=r"\[1025, 1, 1\] threads .*, of at most 1024"):
        library["poisoned"]([out], [2000], [1025])
    with pytest.raises(DispatchError, match="nothing is bound to buffer 7"):
        library["values"]([out, bytes(8)], [1])
    with pytest.raises(DispatchError, match="buffer 1 has 4 bytes, the kernel reads 8"):
        library["values"]([out, bytes(4), *[None] * 5, out], [1])
    with pytest.raises(DispatchError, match="no length for threadgroup memory 0"):
        library["reversed"]([out, out], [8])
