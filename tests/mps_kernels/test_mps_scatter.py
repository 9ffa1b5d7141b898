"""scatter and index_put on emulated Apple GPUs."""

from __future__ import annotations

import ctypes

import pytest
import torch
from mps_operators import MpsTensor, OperatorError, Operators, check, random

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
ALL = FLOATS + INTEGERS
QUICK = (torch.float32, torch.bfloat16, torch.bool)
DTYPES = [pytest.param(d, marks=() if d in QUICK else pytest.mark.long) for d in ALL]

# Sizes of self, sizes of the index, and the dim. Elements meet in all of them.
CASES = [((4, 9), (4, 6), 1), ((9, 4), (20, 3), 0), ((50,), (70,), 0), ((2, 3, 5), (2, 2, 4), -1)]
Sizes = tuple[int, ...]


def places(sizes: Sizes, index_sizes: Sizes, dim: int) -> torch.Tensor:
    return torch.randint(0, sizes[dim], index_sizes, generator=torch.Generator().manual_seed(1))


def written(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """What a scatter gives where the last element that is written to a place stays."""
    result, index, src = x.clone(), index.movedim(dim, 0), src.movedim(dim, 0)
    for i in range(index.size(0)):
        result.scatter_(dim, index[i].unsqueeze(dim), src[i].unsqueeze(dim))
    return result


@pytest.mark.parametrize(("sizes", "index_sizes", "dim"), CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter(
    operators: Operators, dtype: torch.dtype, sizes: Sizes, index_sizes: Sizes, dim: int
) -> None:
    x, src = random(dtype, *sizes), random(dtype, *index_sizes, seed=3)
    index = places(sizes, index_sizes, dim)

    def run_src() -> torch.Tensor:
        out, *rest = map(operators.to_mps, (torch.zeros_like(x), x, index, src))
        operators.call("aoti_torch_mps_scatter_src_out", out, rest[0], dim, *rest[1:])
        return out.torch()

    def run_value() -> torch.Tensor:
        out = operators.to_mps(x)
        operators.call(
            "aoti_torch_mps_scatter_value_out", out, out, dim, operators.to_mps(index), 1.0
        )
        return out.torch()

    check(run_src, written(x, dim, index, src))
    check(run_value, x.scatter(dim, index, 1))


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amin", "amax", "mean"])
@pytest.mark.parametrize(("sizes", "index_sizes", "dim"), CASES)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.values[0] != torch.bool])
def test_scatter_reduce(
    operators: Operators,
    dtype: torch.dtype,
    sizes: Sizes,
    index_sizes: Sizes,
    dim: int,
    reduce: str,
    include_self: bool,
) -> None:
    x, src = random(dtype, *sizes), random(dtype, *index_sizes, seed=3)
    index = places(sizes, index_sizes, dim)
    wide = torch.float32 if dtype.is_floating_point else dtype
    wanted = x.to(wide).scatter_reduce(dim, index, src.to(wide), reduce, include_self=include_self)

    def run() -> torch.Tensor:
        out = operators.to_mps(x)
        tensors = [operators.to_mps(t) for t in (index, src)]
        operators.call(
            "aoti_torch_mps_scatter_reduce_two_out",
            out,
            out,
            dim,
            *tensors,
            reduce.encode(),
            int(include_self),
        )
        return out.torch()

    check(run, wanted.to(dtype))


def test_nan_wins(operators: Operators) -> None:
    x = torch.zeros(3)
    index, src = torch.tensor([0, 0, 1, 1]), torch.tensor([torch.nan, 5.0, 5.0, torch.nan])
    for reduce in ("amax", "amin"):
        out, *rest = map(operators.to_mps, (x, index, src))
        operators.call(
            "aoti_torch_mps_scatter_reduce_two_out", out, out, 0, *rest, reduce.encode(), 1
        )
        result = out.torch()
        assert result[:2].isnan().all()
        assert result[2] == 0


def test_numbers_out_of_range_are_skipped_and_told(operators: Operators) -> None:
    out = operators.to_mps(torch.zeros(3))
    index = operators.to_mps(torch.tensor([0, 3, -1, 2]))
    src = operators.to_mps(torch.ones(4))
    operators.call("aoti_torch_mps_scatter_src_out", out, out, 0, index, src)
    with pytest.raises(OperatorError, match="an index is out of range"):
        out.torch()
    assert out.torch().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("index", "src", "reason"),
    [
        (torch.zeros(2, 3).int(), torch.zeros(2, 3), "index is int32"),
        (torch.zeros(2, 3).long(), torch.zeros(2, 3).half(), "src is float16"),
        (torch.zeros(3, 3).long(), torch.zeros(3, 3), "larger than that of self"),
        (torch.zeros(2).long(), torch.zeros(2), "1 dims, expected 2"),
    ],
)
def test_wrong_arguments_leave_the_result(
    operators: Operators, index: torch.Tensor, src: torch.Tensor, reason: str
) -> None:
    before = torch.full((2, 3), 5.0)
    out = operators.to_mps(before)
    with pytest.raises(OperatorError, match=reason):
        operators.call(
            "aoti_torch_mps_scatter_src_out",
            out,
            operators.to_mps(torch.zeros(2, 3)),
            1,
            operators.to_mps(index),
            operators.to_mps(src),
        )
    assert torch.equal(out.torch(), before)


def index_put(
    operators: Operators,
    x: torch.Tensor,
    indices: list[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool,
) -> torch.Tensor:
    out = operators.to_mps(x)
    kept: list[MpsTensor | None] = [operators.to_mps(i) if i is not None else None for i in indices]
    handles = (ctypes.c_void_p * len(kept))(*[t.handle if t is not None else None for t in kept])
    operators.call(
        "aoti_torch_index_put_out",
        out,
        out,
        handles,
        len(kept),
        operators.to_mps(values),
        int(accumulate),
    )
    return out.torch()


def indices_of(length: int, *sizes: int) -> torch.Tensor:
    """Different numbers of a dim, some from its end."""
    count = torch.Size(sizes).numel()
    numbers = torch.randperm(length, generator=torch.Generator().manual_seed(2))[:count]
    return torch.where(numbers % 2 == 0, numbers, numbers - length).reshape(sizes)


PUTS: dict[str, tuple[torch.Size, list[torch.Tensor | None], Sizes]] = {
    "rows": (torch.Size((9, 3)), [indices_of(9, 6)], (6, 3)),
    "columns": (torch.Size((3, 9)), [None, indices_of(9, 2, 3)], (3, 2, 3)),
    "apart": (torch.Size((5, 6, 7)), [indices_of(5, 4, 1), None, indices_of(7, 3)], (4, 3, 6)),
    "neighbours": (torch.Size((3, 5, 6)), [None, indices_of(5, 4), indices_of(6, 4)], (3, 1)),
    "int32": (torch.Size((8,)), [indices_of(8, 5).int()], (5,)),
    "mask": (torch.Size((5, 6)), [random(torch.bool, 5, 6)], ()),
    "mask_of_rows": (torch.Size((5, 6)), [random(torch.bool, 5)], (6,)),
    "empty": (torch.Size((5, 6)), [torch.zeros(0, dtype=torch.int64)], (0, 6)),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_index_put(operators: Operators, dtype: torch.dtype, name: str, accumulate: bool) -> None:
    sizes, indices, value_sizes = PUTS[name]
    x, values = random(dtype, *sizes), random(dtype, *value_sizes, seed=3)
    longs = [i.long() if i is not None and i.dtype == torch.int32 else i for i in indices]
    wanted = torch.ops.aten.index_put(x, longs, values, accumulate)
    check(lambda: index_put(operators, x, indices, values, accumulate), wanted)


def test_index_put_of_a_view(operators: Operators) -> None:
    x, values = random(torch.float32, 7, 6).t(), random(torch.float32, 4)
    indices: list[torch.Tensor | None] = [indices_of(6, 4), indices_of(7, 4)]
    wanted = torch.ops.aten.index_put(x, indices, values)
    check(lambda: index_put(operators, x, indices, values, False), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_index_put_adds_all_that_meet(operators: Operators, dtype: torch.dtype) -> None:
    x, values = random(dtype, 4, 3), random(dtype, 40, 3)
    index = torch.arange(40) % 3
    wanted = x.index_put((index,), values, accumulate=True)
    check(lambda: index_put(operators, x, [index], values, True), wanted)


def test_the_last_of_equal_indices_stays(operators: Operators) -> None:
    index, values = torch.arange(40) % 3, torch.arange(40.0)
    check(
        lambda: index_put(operators, torch.zeros(4), [index], values, False),
        torch.tensor([39.0, 37.0, 38.0, 0.0]),
    )


GOOD, BAD = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 4, -5, 3])


@pytest.mark.parametrize("indices", [[BAD], [GOOD, BAD], [BAD, GOOD]], ids=["one", "last", "first"])
def test_indices_out_of_range_are_told(operators: Operators, indices: list[torch.Tensor]) -> None:
    x, values = torch.zeros((4,) * len(indices)), torch.ones(4)
    with pytest.raises(OperatorError, match="an index is out of range"):
        index_put(operators, x, [*indices], values, False)
    right = index_put(operators, x, [GOOD for _ in indices], values, False)
    assert right.sum() == 4


@pytest.mark.parametrize(
    ("index", "values", "reason"),
    [
        (torch.zeros(2).half(), torch.zeros(2), "expected int64 or a mask"),
        (torch.zeros(2).long(), torch.zeros(3), "does not broadcast"),
        (torch.zeros(2).long(), torch.zeros(2).half(), "values are float16"),
        (torch.zeros(3).bool(), torch.zeros(1), "the mask has size 3"),
    ],
)
def test_wrong_index_puts(
    operators: Operators, index: torch.Tensor, values: torch.Tensor, reason: str
) -> None:
    with pytest.raises(OperatorError, match=reason):
        index_put(operators, torch.zeros(4), [index], values, False)
