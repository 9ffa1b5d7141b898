"""Operations of simdgroups and their matrices, against what they mean, under several schedules."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from metal_library import DispatchError, Library, schedule

REDUCTIONS = {
    "simd_sum": torch.sum,
    "simd_product": torch.prod,
    "simd_max": torch.amax,
    "simd_min": torch.amin,
}
SHUFFLES = {
    "simd_broadcast(x, 5)": lambda lane: 5,
    "simd_shuffle(x, ushort(lane * 7 % 32))": lambda lane: lane * 7 % 32,
    "simd_shuffle_xor(x, 3)": lambda lane: lane ^ 3,
    "simd_shuffle_up(x, 2)": lambda lane: lane - 2,
    "simd_shuffle_down(x, 4)": lambda lane: lane + 4,
    "simd_shuffle_rotate_down(x, 30)": lambda lane: (lane + 30) % 32,
    "simd_shuffle_and_fill_down(x, float(-9), 4)": lambda lane: lane + 4,
}
SIGNATURE = (
    "(device float* out, constant float* in, uint i [[thread_position_in_grid]], "
    "uint lane [[thread_index_in_simdgroup]])"
)
SIMD = "using namespace metal;\n" + "".join(
    f"kernel void k{number}{SIGNATURE} {{ const float x = in[i]; out[i] = {expression}; }}\n"
    for number, expression in enumerate(
        [
            *(f"{name}(x)" for name in REDUCTIONS),
            *SHUFFLES,
            "simd_prefix_inclusive_sum(x)",
            "simd_prefix_exclusive_product(x)",
            "float(ulong(simd_ballot(x > 0)) >> lane & 1) + 2 * simd_any(x > 2) "
            "+ 4 * simd_all(x < 9)",
            "simd_broadcast_first(x) + simd_is_first()",
        ]
    )
)

BRANCHES = """
using namespace metal;
static float half_of(float x, uint lane) {
  float result = -1;
  if (lane < 16) {
    result = simd_sum(x);
  } else {
    result = 100 + simd_sum(x);
  }
  return result + 1000 * simd_sum(1.0f);
}
kernel void branches(device float* out, constant float* in, uint i [[thread_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
  out[i] = half_of(in[i], lane);
}
kernel void loops(device float* out, constant float* in, uint i [[thread_position_in_grid]],
                  uint lane [[thread_index_in_simdgroup]]) {
  float sum = 0;
  for (uint k = 0; k <= lane / 8; ++k) {
    sum += simd_sum(1.0f);
  }
  out[i] = sum + 1000 * simd_max(float(lane));
}
kernel void tails(device float* out, constant float* in, constant int& n,
                  uint i [[thread_position_in_grid]]) {
  if (int(i) >= n) {
    return;
  }
  out[i] = simd_max(in[i]) + simd_shuffle_xor(in[i], 1);
}
"""


@pytest.fixture(scope="module")
def simd(compiled: Callable[[str], Library]) -> Library:
    return compiled(SIMD)


def run(library: Library, number: int, x: torch.Tensor) -> torch.Tensor:
    out = torch.full_like(x, float("nan"))
    library[f"k{number}"]([out, x], [x.numel()], [64])
    return out.view(-1, 32)


@pytest.mark.usefixtures("each_schedule")
def test_reductions(simd: Library) -> None:
    torch.manual_seed(0)
    x = torch.randn(128)
    for number, reduce in enumerate(REDUCTIONS.values()):
        expected = reduce(x.view(-1, 32), 1).unsqueeze(1).expand(-1, 32)
        torch.testing.assert_close(run(simd, number, x), expected)


@pytest.mark.usefixtures("each_schedule")
def test_shuffles(simd: Library) -> None:
    x = torch.arange(64.0)
    for number, source in enumerate(SHUFFLES.values(), len(REDUCTIONS)):
        result = run(simd, number, x)
        for row, lane in itertools.product(range(2), range(32)):
            if 0 <= source(lane) < 32:
                assert result[row, lane] == row * 32 + source(lane)
            elif number == len(REDUCTIONS) + len(SHUFFLES) - 1:
                assert result[row, lane] == -9


@pytest.mark.usefixtures("each_schedule")
def test_prefixes_and_votes(simd: Library) -> None:
    torch.manual_seed(1)
    x = torch.randn(64)
    rows = x.view(2, 32)
    first = len(REDUCTIONS) + len(SHUFFLES)
    torch.testing.assert_close(run(simd, first, x), rows.cumsum(1))
    shifted = torch.cat([torch.ones(2, 1), rows[:, :-1]], 1).cumprod(1)
    torch.testing.assert_close(run(simd, first + 1, x), shifted)
    votes = (rows > 0).float() + 2 * (rows > 2).any(1, True) + 4 * (rows < 9).all(1, True)
    assert torch.equal(run(simd, first + 2, x), votes)
    leader = rows[:, :1] + (torch.arange(32) == 0)
    assert torch.equal(run(simd, first + 3, x), leader)


@pytest.fixture(scope="module")
def branches(compiled: Callable[[str], Library]) -> Library:
    return compiled(BRANCHES)


@pytest.mark.usefixtures("each_schedule")
def test_lanes_of_branches_meet_apart_and_again_behind(branches: Library) -> None:
    x = torch.arange(32.0)
    out = torch.zeros(32)
    branches["branches"]([out, x], [32])
    assert out[:16].tolist() == [120 + 32000] * 16
    assert out[16:].tolist() == [376 + 100 + 32000] * 16
    branches["loops"]([out, x], [32])
    sums = [32, 32 + 24, 32 + 24 + 16, 32 + 24 + 16 + 8]
    assert out.tolist() == [31000.0 + sums[lane // 8] for lane in range(32)]


def test_inactive_lanes_give_poison_or_zero(branches: Library) -> None:
    x = -1 - torch.arange(32.0)
    read = set()
    for name in ("forward", "reverse", "shuffle"):
        out = torch.zeros(32)
        with schedule(name):
            branches["tails"]([out, x, (21).to_bytes(4, "little")], [32])
        assert out[:20].tolist() == [-1.0 + x[lane ^ 1] for lane in range(20)]
        read.add(out.view(torch.int32)[20].item())
    assert len(read) == 3
    with schedule("forward", inactive="zero"):
        branches["tails"]([out, x, (21).to_bytes(4, "little")], [32])
    assert out[20] == -1.0


MATRICES = """
using namespace metal;
template <typename T>
kernel void product(device T* c, constant T* a, constant T* b, constant int& transposed,
                    uint lane [[thread_index_in_simdgroup]],
                    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup T tile[2][8 * 11];
  simdgroup_matrix<T, 8, 8> left, right;
  simdgroup_matrix<T, 8, 8> sum = make_filled_simdgroup_matrix<T, 8, 8>(T(0.5));
  for (uint k = 0; k < 2; ++k) {
    for (uint e = lane; e < 64; e += 32) {
      tile[simdgroup][e / 8 * 11 + e % 8] = a[(8 * simdgroup + e / 8) * 16 + 8 * k + e % 8];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_load(left, tile[simdgroup], 11);
    if (transposed) {
      simdgroup_load(right, b, 16, ulong2(8 * k, 0), true);
    } else {
      simdgroup_load(right, b, 8, ulong2(0, 8 * k));
    }
    simdgroup_multiply_accumulate(sum, left, right, sum);
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  simdgroup_store(sum, c + 64 * simdgroup, 8, ulong2(0, 0), transposed != 0);
}
template [[host_name("product_float")]] kernel void product<float>(device float*, constant float*,
    constant float*, constant int&, uint, uint);
template [[host_name("product_half")]] kernel void product<half>(device half*, constant half*,
    constant half*, constant int&, uint, uint);
template [[host_name("product_bfloat")]] kernel void product<bfloat>(device bfloat*,
    constant bfloat*, constant bfloat*, constant int&, uint, uint);

kernel void elements(device float* out, uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_float8x8 m(2.0);
  m.thread_elements()[0] += lane;
  m.thread_elements().y += 100 + lane;
  simdgroup_store(m, out, 8);
}
kernel void partial(device float* out, uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(0);
  simdgroup_store(m, out, 8);
}
kernel void different(device float* out, uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(0);
  simdgroup_store(m, out + lane, 8);
}
kernel void unset(device float* out) {
  simdgroup_float8x8 m;
  simdgroup_store(m, out, 8);
}
"""


@pytest.fixture(scope="module")
def matrices(compiled: Callable[[str], Library]) -> Library:
    return compiled(MATRICES)


@pytest.mark.usefixtures("each_schedule")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("transposed", [0, 1])
def test_matrix_products(matrices: Library, dtype: torch.dtype, transposed: int) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(16, 16).to(dtype), torch.randn(16, 8).to(dtype)
    c = torch.zeros(2, 8, 8, dtype=dtype)
    name = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "bfloat"}[dtype]
    given = b.t().contiguous() if transposed else b
    flag = transposed.to_bytes(4, "little")
    matrices[f"product_{name}"]([c, a, given, flag], [64], [64])
    expected = (a.float() @ b.float() + 0.5).view(2, 8, 8)
    if transposed:
        expected = expected.transpose(1, 2)
    tolerance = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(c.float(), expected, rtol=tolerance, atol=8 * tolerance)


def test_each_lane_holds_two_elements_of_a_row(matrices: Library) -> None:
    out = torch.zeros(8, 8)
    matrices["elements"]([out], [32])
    out -= 2 * torch.eye(8)
    assert sorted(out[:, ::2].flatten().tolist()) == list(range(32))
    assert torch.equal(out[:, 1::2], out[:, ::2] + 100)


def test_a_matrix_that_is_not_set_is_not_a_number(matrices: Library) -> None:
    out = torch.zeros(8, 8)
    matrices["unset"]([out], [32])
    assert out.isnan().all()


@pytest.mark.parametrize(
    ("name", "threads", "message"),
    [
        ("partial", 40, "make_filled_simdgroup_matrix is reached by 8 of 32 lanes"),
        ("different", 32, "lanes give simdgroup_store different addresses"),
    ],
)
def test_matrix_operations_take_all_lanes(
    matrices: Library, name: str, threads: int, message: str
) -> None:
    with pytest.raises(DispatchError, match=message):
        matrices[name]([torch.zeros(200)], [threads])
