"""Products of matrices on emulated Apple GPUs."""

from __future__ import annotations

import pytest
import torch
from mps_operators import OperatorError, Operators, check, random

FLOATS = (torch.float32, torch.float16, torch.bfloat16)

# m, n, k: for each kernel, with edges that no tile or vector fits.
ROWS = [(1, 70, 40), (4, 33, 65), (70, 2, 36)]
PLAIN = [(5, 6, 7), (33, 40, 9)]
SIMDGROUP = [(64, 64, 32), (70, 65, 17)]
ALL = [*ROWS, *PLAIN, *SIMDGROUP]


def matrix(dtype: torch.dtype, rows: int, columns: int, transposed: bool) -> torch.Tensor:
    """A matrix, row-major or column-major."""
    values = random(dtype, columns, rows) if transposed else random(dtype, rows, columns)
    return values.t() if transposed else values


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What eager gives, accumulated in float32."""
    return (a.float() @ b.float()).to(a.dtype) if a.is_floating_point() else a @ b


def run_mm(operators: Operators, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = operators.to_mps(torch.full((a.size(0), b.size(1)), 7).to(a.dtype))
    operators.call("aoti_torch_mps_mm_out", out, operators.to_mps(a), operators.to_mps(b))
    return out.torch()


@pytest.mark.parametrize("sizes", ALL, ids=str)
def test_mm(operators: Operators, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = matrix(torch.float32, m, k, False), matrix(torch.float32, k, n, False)
    check(lambda: run_mm(operators, a, b), product(a, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [ROWS[0], PLAIN[0], SIMDGROUP[1]], ids=str)
def test_mm_of_transposed_weights(
    operators: Operators, sizes: tuple[int, int, int], dtype: torch.dtype
) -> None:
    m, n, k = sizes
    a, b = matrix(dtype, m, k, False), matrix(dtype, k, n, True)
    check(lambda: run_mm(operators, a, b), product(a, b))


@pytest.mark.long
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("transposed", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("sizes", [*ALL, (3, 256, 300), (4, 4, 4), (130, 70, 40)], ids=str)
def test_mm_of_any_order(
    operators: Operators,
    sizes: tuple[int, int, int],
    transposed: tuple[bool, bool],
    dtype: torch.dtype,
) -> None:
    m, n, k = sizes
    a, b = matrix(dtype, m, k, transposed[0]), matrix(dtype, k, n, transposed[1])
    check(lambda: run_mm(operators, a, b), product(a, b))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_integers_wrap_around(operators: Operators, dtype: torch.dtype) -> None:
    a, b = random(dtype, 9, 40) * 3, random(dtype, 40, 5) * 9
    check(lambda: run_mm(operators, a, b), a @ b)


@pytest.mark.parametrize("sizes", [(0, 4, 4), (4, 0, 4), (40, 40, 0), (1, 8, 0)], ids=str)
def test_empty(operators: Operators, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = torch.empty(m, k), torch.empty(k, n)
    check(lambda: run_mm(operators, a, b), a @ b)


def test_views_with_steps_and_offsets(operators: Operators) -> None:
    a, b = random(torch.float32, 20, 60)[2:, 1::3], random(torch.float32, 41, 90)[1::2, 4::2]
    check(lambda: run_mm(operators, a, b), a @ b)
    row = a[:1]
    check(lambda: run_mm(operators, row, b), row @ b)


def add(
    operators: Operators, batched: bool, *tensors: torch.Tensor, **factors: float
) -> torch.Tensor:
    """``out = beta * self + alpha * (a @ b)``."""
    out, values, a, b = map(operators.to_mps, tensors)
    name = "aoti_torch_mps_baddbmm_out" if batched else "aoti_torch_mps_addmm_out"
    operators.call(name, out, values, a, b, factors["beta"], factors["alpha"])
    return out.torch()


@pytest.mark.parametrize("sizes", [ROWS[0], ROWS[2], PLAIN[0], SIMDGROUP[1]], ids=str)
@pytest.mark.parametrize("kind", ["row", "column", "scalar", "full"])
def test_addmm(operators: Operators, sizes: tuple[int, int, int], kind: str) -> None:
    m, n, k = sizes
    shape = {"row": (n,), "column": (m, 1), "scalar": (), "full": (m, n)}[kind]
    values = random(torch.float32, *shape)
    a, b = random(torch.float32, m, k), random(torch.float32, n, k).t()
    expected = torch.addmm(values, a, b, beta=0.5, alpha=2.0)
    out = torch.full((m, n), torch.nan)
    check(lambda: add(operators, False, out, values, a, b, beta=0.5, alpha=2.0), expected)


def test_beta_0_does_not_read_what_is_added(operators: Operators) -> None:
    nan = torch.full((5, 6), torch.nan)
    a, b = random(torch.float32, 5, 7), random(torch.float32, 7, 6)
    check(lambda: add(operators, False, nan, nan, a, b, beta=0.0, alpha=1.0), a @ b)


@pytest.mark.parametrize("sizes", [(3, 4, 5, 6), (2, 1, 40, 33), (2, 40, 36, 20)], ids=str)
def test_batches(operators: Operators, sizes: tuple[int, int, int, int]) -> None:
    batch, m, n, k = sizes
    a, b = random(torch.float32, batch, m, k), random(torch.float32, batch, n, k).transpose(1, 2)
    values = random(torch.float32, batch, 1, n)
    out = torch.full((batch, m, n), torch.nan)
    check(
        lambda: add(operators, True, out, values, a, b, beta=1.0, alpha=-1.0),
        torch.baddbmm(values, a, b, alpha=-1),
    )
    shared = b[:1].expand(batch, k, n)

    def bmm() -> torch.Tensor:
        result = operators.to_mps(out)
        operators.call(
            "aoti_torch_mps_bmm_out", result, operators.to_mps(a), operators.to_mps(shared)
        )
        return result.torch()

    check(bmm, a @ shared)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (torch.zeros(3, 4), torch.zeros(5, 2), "inner sizes differ"),
        (torch.zeros(3, 4).half(), torch.zeros(4, 2).half(), "float16, expected float32"),
        (torch.zeros(3, 4), torch.zeros(2, 4, 2), "3 dims, expected 2"),
        (torch.zeros(2, 4), torch.zeros(4, 2), r"the result is \[3, 2\]"),
    ],
)
def test_wrong_arguments_leave_the_result(
    operators: Operators, a: torch.Tensor, b: torch.Tensor, reason: str
) -> None:
    before = torch.full((3, 2), 5.0)
    out = operators.to_mps(before)
    with pytest.raises(OperatorError, match=reason):
        operators.call("aoti_torch_mps_mm_out", out, operators.to_mps(a), operators.to_mps(b))
    assert torch.equal(out.torch(), before)


def test_tensors_of_the_cpu_are_refused(operators: Operators) -> None:
    here = torch.zeros(3, 3)
    out = operators.to_mps(here)
    with pytest.raises(OperatorError, match="is on cpu, expected mps"):
        operators.call("aoti_torch_mps_mm_out", out, operators.borrow(here), operators.to_mps(here))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bool], ids=str)
def test_dtypes_without_a_kernel_are_refused(operators: Operators, dtype: torch.dtype) -> None:
    zeros = operators.to_mps(torch.zeros(2, 2, dtype=dtype))
    with pytest.raises(OperatorError, match="no matrix product for"):
        operators.call("aoti_torch_mps_mm_out", zeros, zeros, zeros)
