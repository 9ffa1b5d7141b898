"""Orders, scans, counts and searches."""

from __future__ import annotations

import torch
from operator_case import (
    FLOATS,
    INTEGERS,
    Case,
    cases,
    forms,
    places,
    some,
    transposed,
    with_nans,
)

REAL = (*FLOATS, *INTEGERS)
NANS = [(with_nans(some(5, 6)),), (with_nans(some(5, 6, dtype=torch.bfloat16)),)]
EDGES = torch.tensor([-2.5, -1.0, 0.0, 0.25, 3.0])
ROWS = some(3, 6).sort(-1)[0]


def _sorted_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """By values and by indices, which may be those of any of the elements that are equal."""
    values, indices = torch.sort(x, -1)
    return values, x.gather(-1, indices)


CASES: tuple[Case, ...] = (
    *cases("aten.cummax.default", lambda x: torch.cummax(x, -1), *forms(4, 6, dtypes=REAL), *NANS),
    *cases("aten.cummax.default", lambda x: torch.cummax(x, 0), (some(5, 3),), (some(),)),
    *cases("aten.cummin.default", lambda x: torch.cummin(x, -1), *forms(4, 6, dtypes=REAL), *NANS),
    *cases("aten.cummin.default", lambda x: torch.cummin(x, 0), (some(5, 3),), (some(),)),
    *cases("aten.cumprod.default", lambda x: torch.cumprod(x, -1), *forms(4, 6, dtypes=FLOATS)),
    *cases("aten.cumsum.default", lambda x: torch.cumsum(x, 0), *forms(4, 6, dtypes=REAL)),
    *cases("aten.logcumsumexp.default", lambda x: torch.logcumsumexp(x, -1), *forms(4, 6), *NANS),
    *cases(
        "aten.logcumsumexp.default",
        lambda x: torch.logcumsumexp(x, 0),
        (some(3, 4) * 100,),
        (torch.tensor([-torch.inf, -torch.inf, 1.0, torch.inf, 2.0]),),
        (some(),),
    ),
    *cases(
        "aten.kthvalue.default",
        lambda x: torch.kthvalue(x, 2, -1, True)[0],
        *forms(4, 6, dtypes=REAL),
        *NANS,
    ),
    *cases("aten.kthvalue.default", lambda x: torch.kthvalue(x, 3, 0), (some(5, 3),)),
    *cases("aten.median.default", torch.median, *forms(4, 6, dtypes=REAL)[:-1], *NANS),
    *cases("aten.nanmedian.default", torch.nanmedian, *forms(4, 6, dtypes=REAL)[:-1], *NANS),
    *cases(
        "aten.mode.default", lambda x: torch.mode(x, -1)[0], *forms(4, 6, dtypes=INTEGERS + FLOATS)
    ),
    *cases("aten.mode.default", lambda x: torch.mode(x, 0, True), (places(3, 7, 4),)),
    *cases("aten.sort.default", _sorted_twice, *forms(4, 6), *NANS),
    *cases(
        "aten.sort.stable",
        lambda x: torch.sort(x, dim=0, stable=True, descending=True),
        *forms(4, 6, dtypes=REAL),
        *NANS,
    ),
    *cases("aten.topk.default", lambda x: torch.topk(x, 3), *forms(4, 6), *NANS),
    *cases(
        "aten.bucketize.Tensor",
        lambda x, edges: torch.bucketize(x, edges.abs().sort()[0].to(x.dtype)),
        *((x, EDGES) for (x,) in forms(4, 6, dtypes=REAL)),
    ),
    *cases(
        "aten.bucketize.Tensor",
        lambda x, edges: torch.bucketize(x, edges, right=True, out_int32=True),
        (EDGES.clone(), EDGES),
        (with_nans(some(9)), EDGES),
        (some(9), some(0)),
    ),
    *cases(  # nothing is read from memory
        "aten.bucketize.Tensor",
        lambda x: x + torch.bucketize(torch.arange(0, 1, 1 / 64), torch.arange(1 / 70, 1, 1 / 70)),
        (some(64),),
    ),
    *cases(
        "aten.searchsorted.Tensor",
        torch.searchsorted,
        (ROWS, some(3, 4)),
        (ROWS[0], some(2, 5)),
        (ROWS.double(), transposed(3, 5, dtype=torch.float64)),
        (ROWS.bfloat16(), some(3, 5, dtype=torch.bfloat16)),
        (ROWS.int(), some(3, 5, dtype=torch.int32)),
        (ROWS, some(3, 0)),
        (ROWS, with_nans(some(3, 9))),
    ),
    *cases(
        "aten.searchsorted.Tensor",
        lambda rows, x: torch.searchsorted(rows, x, side="right", out_int32=True),
        (ROWS, ROWS.clone()),
    ),
    *cases(
        "aten.searchsorted.Tensor",
        lambda rows, x: torch.searchsorted(rows, x, sorter=torch.argsort(rows, -1)),
        (some(3, 7), some(3, 4)),
    ),
    *cases(  # views of inputs and of what is computed
        "aten.searchsorted.Tensor",
        lambda rows, x: (
            torch.searchsorted(rows[1], x),
            torch.searchsorted(rows[:, 2:], x),
            torch.searchsorted((rows * 2)[1:], x[1:]),
            torch.searchsorted((rows + 1).T.sort(0)[0].T, x),
        ),
        (ROWS, some(3, 4)),
    ),
    *cases(
        "aten.searchsorted.Tensor",
        torch.searchsorted,
        (ROWS.int(), some(3, 4)),
        (torch.tensor([1, 7, 250], dtype=torch.uint8), torch.tensor([-5, 3, 100]).to(torch.int8)),
    ),
    *cases(
        "aten.searchsorted.Scalar",
        lambda rows: torch.searchsorted(rows, 0.5),
        (ROWS[1],),
        (torch.tensor([0, 1, 2]),),
        (torch.linspace(-1, 1, 40),),
    ),
    *cases(
        "aten.histc.default", lambda x: torch.histc(x, 5, -3, 3), *forms(4, 6)[:2], (some(0, 3),)
    ),
    *cases(
        "aten.histc.default", lambda x: torch.histc(x, 7), (transposed(9, 5),), (torch.ones(4),)
    ),
    *cases(
        "aten.histogram.bin_ct",
        lambda x: torch.histogram(x, 5, range=(-3.0, 3.0)),
        (some(4, 6),),
        (transposed(5, 7, dtype=torch.float64),),
    ),
    *cases(
        "aten.histogram.bin_ct",
        lambda x, weight: torch.histogram(x, 6, weight=weight, density=True),
        (some(31), some(31, low=0)),
    ),
    *cases(
        "aten._histogramdd_from_bin_cts.default",
        lambda x: torch.ops.aten._histogramdd_from_bin_cts(x, [3, 4], range=[-3, 3, -2, 2]),
        (some(40, 2),),
        (some(17, 2, dtype=torch.float64),),
    ),
)
