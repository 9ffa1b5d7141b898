"""Element by element, shapes and views, indexing, sizes that depend on data."""

from __future__ import annotations

import functools

import torch
from operator_case import FLOATS, INTEGERS, Case, cases, forms, places, some, transposed, with_nans

aten = torch.ops.aten
REAL = (*FLOATS, *INTEGERS)


def _pairs(dtypes: tuple[torch.dtype, ...] = REAL) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(x, x.flip(-1)) for (x,) in forms(4, 6, dtypes=dtypes)]


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))


def _real(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x.resolve_conj())


def _index_reduced(
    reduce: str, include_self: bool, x: torch.Tensor, i: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    return torch.index_reduce(x, 0, i, y, reduce, include_self=include_self)


def _scatter_reduced(reduce: str, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.scatter_reduce(1, i, x.flip(1), reduce)


MASK = some(4, 6, dtype=torch.bool)
COUNT = int(MASK.sum())

CASES: tuple[Case, ...] = (
    *cases("aten.abs.default", torch.abs, *forms(4, 6, dtypes=REAL)),
    *cases("aten.abs.default", lambda x: _complex(x).abs(), (some(3, 8),), (some(3, 8).double(),)),
    *cases("aten.add.Scalar", lambda x: aten.add.Scalar(x, 2, 3), *forms(4, 6, dtypes=REAL)),
    *cases("aten.add.Tensor", lambda x, y: torch.add(x, y, alpha=2), *_pairs()),
    *cases(
        "aten.add.Tensor",
        lambda x, y: _real(_complex(x) + _complex(y)),
        (some(3, 8), some(3, 8).flip(0)),
    ),
    *cases("aten.mul.Scalar", lambda x: aten.mul.Scalar(x, 3), *forms(4, 6, dtypes=REAL)),
    *cases("aten.mul.Tensor", torch.mul, *_pairs()),
    *cases(
        "aten.mul.Tensor",
        lambda x, y: _real(_complex(x) * _complex(y)),
        (some(3, 8), some(3, 8).flip(0)),
        (some(3, 8).double(), some(3, 8).double().flip(0)),
    ),
    *cases("aten.pow.Scalar", lambda x: torch.pow(2.5, x), *forms(4, 6)),
    *cases("aten.pow.Tensor_Scalar", lambda x: torch.pow(x, 3), *forms(4, 6, dtypes=REAL)),
    *cases("aten.pow.Tensor_Scalar", lambda x: torch.pow(x, 1.7), *forms(4, 6, low=0)[:2]),
    *cases(
        "aten.pow.Tensor_Tensor",
        lambda x, y: torch.pow(x.abs(), y.abs()),
        *_pairs(FLOATS),
    ),
    *cases("aten.pow.Tensor_Tensor", torch.pow, *_pairs(INTEGERS)),
    *cases("aten.angle.default", torch.angle, *forms(4, 6), (with_nans(some(3, 4)),)),
    *cases("aten.angle.default", lambda x: _complex(x).angle(), (some(3, 8),)),
    *cases(
        "aten.polar.default",
        lambda x, y: _real(torch.polar(x, y)),
        (some(3, 4), some(4, 3).t()),
        (some(3, 4).double(), some(3, 4).double()),
    ),
    *cases("aten.gcd.default", torch.gcd, *_pairs((torch.int64, torch.int32, torch.uint8))),
    *cases(
        "aten.gcd.default",
        torch.gcd,
        (places(900, 5, 7) - 300, places(900, 5, 7).flip(1) - 450),
        (torch.tensor([0, 0, 6, -8, 2**40]), torch.tensor([0, -5, 0, 12, 3 * 2**35])),
    ),
    *cases(
        "aten.view_as_complex.default", lambda x: _real(_complex(x) * _complex(x)), (some(3, 8),)
    ),
    *cases("aten.view_as_real.default", lambda x: _real(_complex(x)).sum(-1), (some(3, 8),)),
    *cases("aten.cat.default", lambda x, y: torch.cat((x, y, x), 0), *_pairs(FLOATS)),
    *cases("aten.cat.default", lambda x, y: torch.cat((x, y, x), 0), *_pairs(INTEGERS[::-1])),
    *cases("aten.narrow.default", lambda x: x.narrow(-1, 1, 3) + 1, *forms(4, 6)),
    *cases("aten.permute.default", lambda x: x.permute(1, 0).contiguous(), *forms(4, 6)),
    *cases("aten.reshape.default", lambda x: x.reshape(-1, 3) * 2, *forms(4, 6)),
    *cases("aten.slice.Tensor", lambda x: x[1::2, -4:] * 2, *forms(4, 6)),
    *cases("aten.squeeze.dim", lambda x: x[:, None].squeeze(1) * 2, *forms(4, 6)),
    *cases("aten.view.dtype", lambda x: x.view(torch.int32) + 1, *forms(4, 6)[:1], (some(0, 4),)),
    *cases("aten.view.dtype", lambda x: x.view(torch.int16) + 1, (some(4, 6).half(),)),
    *cases("aten.fill_.Scalar", lambda x: x.clone().fill_(2.5), *forms(4, 6)),
    *cases("aten.resize_.default", lambda x: (x + 1).resize_(2, 5), (some(4, 6),)),
    *cases(
        "aten.resize_as_.default", lambda x, y: (x + 1).resize_as_(y) + y, (some(4, 6), some(2, 5))
    ),
    *cases("aten.set_.source_Tensor", lambda x, y: (x + 1).set_(y * 2), (some(4, 6), some(2, 5))),
    *cases(
        "aten.hann_window.default",
        lambda x: x * torch.hann_window(6),
        *forms(4, 6)[:1],
    ),
    *cases(
        "aten.index.Tensor",
        lambda x, i: x[i, :] + x[:, i % 3][:, :1].sum(),
        *((x, places(len(x) or 1, 5)) for (x,) in forms(4, 6, dtypes=REAL)[:-1]),
    ),
    *cases("aten.index.Tensor", lambda x, mask: x[mask].sum(), (some(4, 6), MASK)),
    *cases(
        "aten.index_put.default",
        lambda x, i: x.index_put((i,), x[:3] * 2, accumulate=True),
        *((x, torch.tensor([1, 0, 1])) for (x,) in forms(4, 6)[:-1]),
    ),
    *cases(
        "aten.index_put.default",
        lambda x, i: x.index_put((i,), x[:3] * 2),
        *((x, torch.tensor([1, 0, 2])) for (x,) in forms(4, 6)[:-1]),
    ),
    *cases(
        "aten.index_put.default",
        lambda x, i: x.index_put((i,), x[:3] * 2, accumulate=True),
        *((x, torch.tensor([1, 0, 1])) for (x,) in forms(4, 6, dtypes=INTEGERS)[:3]),
    ),
    *cases(
        "aten.index_put.default",
        lambda x, mask: x.index_put((mask,), torch.tensor(2.5)),
        (some(4, 6), MASK),
    ),
    *cases(
        "aten.index_put.default",
        lambda x, mask: x.index_put((mask,), x.flatten()[:COUNT] * 2),
        (some(4, 6), MASK),
    ),
    *(
        case
        for reduce in ("amax", "amin", "prod", "mean")
        for include_self in (True, False)
        for case in cases(
            "aten.index_reduce.default",
            functools.partial(_index_reduced, reduce, include_self),
            (some(4, 6), torch.tensor([1, 0, 1]), some(3, 6)),
            (some(4, 6).bfloat16(), torch.tensor([1, 0, 1]), some(3, 6).bfloat16()),
            (transposed(5, 7).long(), torch.tensor([1, 4, 1]), transposed(3, 7).long()),
            (some(4, 6), torch.tensor([], dtype=torch.int64), some(0, 6)),
        )
    ),
    *cases(
        "aten.scatter.src_out",
        lambda x, i: x.scatter(1, i, x + 1),
        *((x, torch.argsort(some(4, 6), 1)[: len(x)]) for (x,) in forms(4, 6, dtypes=REAL)[:7]),
    ),
    *cases(
        "aten.scatter.value_out",
        lambda x, i: x.scatter(0, i, 2),
        *((x, places(4, 2, 6)) for (x,) in forms(4, 6, dtypes=REAL)[:7]),
    ),
    *(
        case
        for reduce in ("sum", "amax", "amin", "prod", "mean")
        for case in cases(
            "aten.scatter_reduce.two_out",
            functools.partial(_scatter_reduced, reduce),
            (some(4, 6), places(3, 4, 6)),
            (some(4, 6).double(), places(3, 4, 6)),
            (some(4, 6).long(), places(3, 4, 6)),
            (transposed(4, 6), places(3, 4, 6)),
        )
    ),
    *cases(
        "aten.masked_scatter.default",
        torch.masked_scatter,
        *((x, MASK, x.flip(0)) for (x,) in forms(4, 6, dtypes=REAL)[:8]),
    ),
    *cases("aten.masked_select.default", torch.masked_select, (some(4, 6), MASK)),
    *cases(
        "aten.masked_select.default",
        lambda x, mask: torch.masked_select(x, mask).sum(),
        (some(4, 6), MASK),
        (transposed(5, 7), some(5, 7, dtype=torch.bool)),
        (some(4, 6).long(), MASK),
        (some(4, 6), torch.zeros(4, 6, dtype=torch.bool)),
        (some(0, 6), MASK[:0]),
    ),
    *cases("aten.nonzero.default", torch.nonzero, (MASK,)),
    *cases(
        "aten.nonzero.default",
        lambda x: torch.nonzero(x).sum(0),
        (MASK,),
        (places(2, 3, 4, 5),),
        (places(2, 5, 7).double(),),
        (transposed(5, 7).long(),),
        (torch.zeros(3, 4),),
        (torch.zeros(0, 4),),
        (torch.tensor(2.0),),
    ),
    *cases(
        "aten.nonzero_static.default",
        lambda x: torch.nonzero_static(x, size=9, fill_value=-2),
        (MASK,),
        (places(2, 2, 3, 4).double(),),
        (transposed(3, 4).long(),),
        (torch.zeros(3, 4),),
        (torch.zeros(0, 4),),
    ),
    *cases(
        "aten.repeat_interleave.Tensor",
        lambda repeats: torch.repeat_interleave(repeats, output_size=9),
        (torch.tensor([2, 0, 3, 4]),),
        (torch.tensor([9, 0], dtype=torch.int32),),
    ),
    *cases(
        "aten.repeat_interleave.Tensor",
        lambda x, repeats: torch.repeat_interleave(x, repeats, 0).sum(0),
        (some(4, 6), torch.tensor([2, 0, 3, 4])),
    ),
)
