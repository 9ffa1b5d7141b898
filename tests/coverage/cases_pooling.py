"""Windows over images: pooling, sampling, embedding bags."""

from __future__ import annotations

import torch
from operator_case import FLOATS, Case, cases, places, some, with_nans
from torch.nn import functional

aten = torch.ops.aten


def images(*shape: int, dtypes: tuple[torch.dtype, ...] = FLOATS) -> list[tuple[torch.Tensor]]:
    """One batch of each dtype, one channels-last, and one image without a batch."""
    layout = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    last = some(*shape).to(memory_format=layout)
    return [*((some(*shape, dtype=dtype),) for dtype in dtypes), (last,), (some(*shape[1:]),)]


FRACTIONS_2D = torch.tensor([[[0.2, 0.7], [0.5, 0.1], [0.9, 0.4]]]).repeat(2, 1, 1)
FRACTIONS_3D = some(2, 3, 3, low=0, high=0.999)
GRID = some(2, 2, 3, 4, 3, low=-1.3, high=1.3)
TABLE = some(9, 4)
BAGS = (torch.tensor([1, 2, 2, 8, 0, 1, 3]), torch.tensor([0, 3, 3, 5]))


def _unpooled_2d(x: torch.Tensor) -> torch.Tensor:
    values, indices = functional.max_pool2d(x, 2, return_indices=True)
    return functional.max_unpool2d(values, indices, 2, output_size=x.shape[-2:])


def _unpooled_3d(x: torch.Tensor) -> torch.Tensor:
    values, indices = functional.max_pool3d(x, 2, return_indices=True)
    return functional.max_unpool3d(values, indices, 2, output_size=x.shape[-3:])


CASES: tuple[Case, ...] = (
    *cases(
        "aten._adaptive_avg_pool2d.default",
        lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
        *images(2, 3, 7, 9),
    ),
    *cases(
        "aten._adaptive_avg_pool2d.default",
        lambda x: functional.adaptive_avg_pool2d(x, (3, 4)),
        (some(1, 2, 37, 29),),
    ),
    *cases(
        "aten._adaptive_avg_pool3d.default",
        lambda x: functional.adaptive_avg_pool3d(x, (3, 2, 4)),
        *images(2, 3, 5, 7, 9),
    ),
    *cases(
        "aten.adaptive_max_pool2d.default",
        lambda x: functional.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        *images(2, 3, 7, 9),
        (with_nans(some(1, 2, 23, 29)),),
    ),
    *cases(
        "aten.adaptive_max_pool3d.default",
        lambda x: functional.adaptive_max_pool3d(x, (3, 2, 4), return_indices=True),
        *images(2, 3, 5, 7, 9),
    ),
    *cases(
        "aten.avg_pool2d.default",
        lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        *images(2, 3, 7, 9),
    ),
    *cases(
        "aten.avg_pool2d.default", lambda x: functional.avg_pool2d(x, 7, 2), (some(1, 2, 9, 9),)
    ),
    *cases(
        "aten.avg_pool3d.default",
        lambda x: functional.avg_pool3d(x, 3, 2, 1),
        *images(2, 3, 5, 7, 9, dtypes=FLOATS[:2]),
    ),
    *cases(
        "aten.max_pool2d_with_indices.default",
        lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True),
        *images(2, 3, 7, 9),
    ),
    *cases(  # which of the NaNs in a window the index is of differs
        "aten.max_pool2d_with_indices.default",
        lambda x: functional.max_pool2d(x, 3, 2, 1),
        (with_nans(some(1, 2, 9, 9)),),
    ),
    *cases(
        "aten.max_pool2d_with_indices.default",
        lambda x: functional.max_pool2d(x, 6, 3, 2, 2, True, return_indices=True),
        (some(1, 2, 23, 17),),
    ),
    *cases(
        "aten.max_pool3d_with_indices.default",
        lambda x: functional.max_pool3d(x, 3, 2, 1, return_indices=True),
        *images(2, 3, 5, 7, 9),
    ),
    *cases("aten.max_unpool2d.default", _unpooled_2d, *images(2, 3, 6, 9)),
    *cases("aten.max_unpool3d.default", _unpooled_3d, *images(2, 3, 5, 6, 9)),
    *cases(
        "aten.fractional_max_pool2d.default",
        lambda x, fractions: aten.fractional_max_pool2d(x, [2, 3], [4, 3], fractions.to(x.dtype)),
        *((x, FRACTIONS_2D) for (x,) in images(2, 3, 9, 11)[:-1]),
    ),
    *cases(  # here, too
        "aten.fractional_max_pool2d.default",
        lambda x, fractions: aten.fractional_max_pool2d(x, [2, 3], [4, 3], fractions)[0],
        (with_nans(some(2, 3, 9, 11)), FRACTIONS_2D),
    ),
    *cases(
        "aten.fractional_max_pool3d.default",
        lambda x, fractions: aten.fractional_max_pool3d(
            x, [2, 3, 2], [4, 3, 2], fractions.to(x.dtype)
        ),
        *((x, FRACTIONS_3D) for (x,) in images(2, 3, 9, 11, 7)[:-1]),
    ),
    *cases(
        "aten.grid_sampler_3d.default",
        lambda x, grid: functional.grid_sample(x, grid, "bilinear", "zeros", align_corners=False),
        (some(2, 3, 4, 5, 6), GRID),
        (some(2, 3, 4, 5, 6).double(), GRID.double()),
        (some(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d), GRID),
    ),
    *cases(
        "aten.grid_sampler_3d.default",
        lambda x, grid: functional.grid_sample(x, grid, "bilinear", "border", align_corners=True),
        (some(2, 3, 4, 5, 6), GRID),
    ),
    *cases(
        "aten.grid_sampler_3d.default",
        lambda x, grid: functional.grid_sample(
            x, grid, "nearest", "reflection", align_corners=False
        ),
        (some(2, 3, 4, 5, 6), GRID),
    ),
    *cases(
        "aten._embedding_bag.default",
        lambda table, *bags: aten._embedding_bag(table, *bags, False, 1)[0],
        (TABLE, *BAGS),
        (TABLE.double(), *BAGS),
        (TABLE.half(), *BAGS),
    ),
    *cases(
        "aten._embedding_bag_forward_only.default",
        lambda table, *bags: functional.embedding_bag(bags[0], table, bags[1], mode="max"),
        (TABLE, *BAGS),
        (TABLE, BAGS[0].int(), BAGS[1].int()),
    ),
    *cases(
        "aten.pad.default",
        lambda x: functional.pad(x, (1, 2, 0, 3), "reflect"),
        *images(2, 3, 7, 9)[:-1],
    ),
    *cases("aten.pad.default", lambda x: functional.pad(x, (1, 2), value=2.5), (some(3, 4),)),
    *cases(
        "aten.segment_reduce.default",
        lambda x, lengths: torch.segment_reduce(x, "sum", lengths=lengths),
        *((x, torch.tensor([2, 0, 3, 2])) for x in (some(7), some(7, 3), some(7, 3).double())),
        (some(7, 3).bfloat16(), torch.tensor([2, 0, 3, 2])),
    ),
    *cases(
        "aten.segment_reduce.default",
        lambda x, lengths: torch.segment_reduce(x, "max", lengths=lengths, initial=0.5),
        (some(7, 3), torch.tensor([2, 0, 3, 2])),
        (with_nans(some(7, 3)), torch.tensor([2, 0, 3, 2])),
    ),
    *cases(
        "aten.segment_reduce.default",
        lambda x, offsets: torch.segment_reduce(x, "mean", offsets=offsets, axis=1),
        (some(2, 7, 3), torch.tensor([[0, 2, 2, 7], [0, 1, 5, 7]])),
    ),
    *cases(
        "aten.segment_reduce.default",
        lambda x, lengths: torch.segment_reduce(x, "prod", lengths=lengths),
        (some(7), places(1, 3) + torch.tensor([1, 4, 2])),
    ),
)
