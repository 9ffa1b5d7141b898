"""sort, topk, cumsum and cumprod on emulated Apple GPUs."""

from __future__ import annotations

import ctypes

import pytest
import torch
from mps_operators import OperatorError, Operators, check, dtype_code, random, schedule
from mps_support import SCHEDULES

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
ALL = FLOATS + INTEGERS

QUICK = (torch.float32, torch.bfloat16, torch.int64)
DTYPES = [pytest.param(d, marks=() if d in QUICK else pytest.mark.long) for d in ALL]

# Sizes, and the dim of the lines. The last but one is longer than what a group sorts by itself.
LINES = [((3, 20), -1), ((40, 3), 0), ((2, 5, 7), 1), ((), 0), ((1500,), 0), ((2, 0), 1)]


def values(dtype: torch.dtype, sizes: tuple[int, ...]) -> torch.Tensor:
    """Random numbers, with equal ones; floats have NaN, infinities and both zeros."""
    result = random(dtype, *sizes)
    if dtype.is_floating_point and result.numel() > 8:
        flat = result.view(-1)
        flat[:6] = torch.tensor([0.0, torch.nan, -0.0, torch.inf, -torch.inf, torch.nan])
    return result


def check_sorted(
    operators: Operators, name: str, x: torch.Tensor, wanted: list[torch.Tensor], *arguments: object
) -> None:
    for order in SCHEDULES:
        with schedule(order):
            found, places = operators.results(name, 2, operators.to_mps(x), *arguments)
        assert torch.equal(places, wanted[1])
        torch.testing.assert_close(found, wanted[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("sizes", "dim"), LINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(
    operators: Operators, dtype: torch.dtype, sizes: tuple[int, ...], dim: int, descending: bool
) -> None:
    x = values(dtype, sizes)
    wanted = torch.sort(x, dim=dim, descending=descending, stable=True)
    check_sorted(operators, "sort_stable", x, list(wanted), None, dim, int(descending))


def test_sort_of_a_view_keeps_its_order_of_memory(operators: Operators) -> None:
    x = random(torch.float32, 6, 5, 4).transpose(0, 2)
    wanted = torch.sort(x, dim=1, stable=True)
    check_sorted(operators, "sort", x, list(wanted), 1, 0)
    found, _ = operators.results("sort", 2, operators.to_mps(x), 1, 0)
    assert found.stride() == wanted.values.stride()
    skipping = random(torch.float32, 9, 40)[::2, ::3]
    check_sorted(operators, "sort", skipping, list(torch.sort(skipping, stable=True)), 1, 0)


@pytest.mark.long
def test_sort_of_long_lines(operators: Operators) -> None:
    x = values(torch.float32, (2, 5000))
    check_sorted(operators, "sort", x, list(torch.sort(x, stable=True)), 1, 0)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("sizes", "dim", "k"), [((3, 20), -1, 5), ((40, 3), 0, 40), ((1500,), 0, 7), ((4,), 0, 0)]
)
def test_topk(
    operators: Operators, sizes: tuple[int, ...], dim: int, k: int, largest: bool
) -> None:
    x = values(torch.float32, sizes)
    wanted = [t.narrow(dim, 0, k) for t in torch.sort(x, dim=dim, descending=largest, stable=True)]
    check_sorted(operators, "topk", x, wanted, k, dim, int(largest), 1)


def scan(
    operators: Operators, name: str, x: torch.Tensor, dim: int, dtype: torch.dtype | None = None
) -> torch.Tensor:
    code = ctypes.byref(ctypes.c_int32(dtype_code(dtype))) if dtype is not None else None
    return operators.results(name, 1, operators.to_mps(x), dim, code)[0]


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize(("sizes", "dim"), LINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scan(
    operators: Operators, dtype: torch.dtype, sizes: tuple[int, ...], dim: int, name: str
) -> None:
    x = random(dtype, *sizes)
    if dtype.is_floating_point:  # sums and products that stay small
        x = (1 + x / 64 if name == "cumprod" else x / 8).to(dtype)
        wanted = getattr(torch, name)(x.double(), dim).to(dtype)
    else:
        wanted = getattr(torch, name)(x, dim)
    check(lambda: scan(operators, name, x, dim), wanted)


@pytest.mark.parametrize("to", [torch.int32, torch.float32, torch.uint8], ids=str)
def test_scan_as_another_dtype(operators: Operators, to: torch.dtype) -> None:
    x = random(torch.int64, 5, 70)
    check(lambda: scan(operators, "cumsum", x, 1, to), x.cumsum(1, dtype=to))


def test_scan_of_a_view(operators: Operators) -> None:
    x = random(torch.float32, 8, 60)[1:, ::2].t()
    check(lambda: scan(operators, "cumsum", x, 0), x.cumsum(0))
    check(lambda: scan(operators, "cumsum", x, 1), x.cumsum(1))


def test_nan_stays_from_where_it_is(operators: Operators) -> None:
    x = torch.tensor([[1.0, 2.0, torch.nan, 4.0], [1.0, 1.0, 1.0, torch.inf]])
    check(lambda: scan(operators, "cumsum", x, 1), x.cumsum(1))


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("cumsum", (2, None), "dim 2 is out of range"),
        ("cumsum", (0, ctypes.byref(ctypes.c_int32(7))), "as float64 on mps"),
        ("cumprod", (-3, None), "dim -3 is out of range"),
    ],
)
def test_wrong_scans(
    operators: Operators, name: str, arguments: tuple[object, ...], reason: str
) -> None:
    with pytest.raises(OperatorError, match=reason):
        operators.results(name, 1, operators.to_mps(torch.zeros(2, 3)), *arguments)


def test_wrong_sorts(operators: Operators) -> None:
    x = operators.to_mps(torch.zeros(2, 3))
    with pytest.raises(OperatorError, match="k is 4, expected 0 to 3"):
        operators.results("topk", 2, x, 4, 1, 1, 1)
    with pytest.raises(OperatorError, match="float64 has no order on mps"):
        operators.results("sort", 2, operators.to_mps(torch.zeros(2).double()), 0, 0)
    with pytest.raises(OperatorError, match="self is on cpu"):
        operators.results("sort", 2, operators.borrow(torch.zeros(2)), 0, 0)
