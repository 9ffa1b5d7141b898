"""Sums and maxima over bags of rows as Triton kernels.

Not imported with the package: importing this module needs triton. The table is ``weight [rows,
width]``, the others have one dimension, any strides in elements. Offsets that are no places of
indices, and indices that are no rows, are left out.
"""

# ruff: noqa: N803
# mypy: allow-untyped-defs
# The types of a kernel are Triton's: pointers, integers, and upper-case compile-time constants.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _bag(offsets, offset_step, bag, bags, count, STOPS: tl.constexpr):
    # Where a bag starts and ends in the indices.
    start = tl.load(offsets + bag * offset_step).to(tl.int64)
    has_end = bag + 1 < bags + STOPS
    end = tl.load(offsets + (bag + 1) * offset_step, mask=has_end, other=0).to(tl.int64)
    end = tl.where(has_end, end, count)
    return tl.maximum(start, 0), tl.minimum(end, count)


@triton.jit
def sum_bags(
    weight,
    indices,
    offsets,
    factors,
    values,
    rows,
    width,
    count,
    bags,
    row_step,
    column_step,
    index_step,
    offset_step,
    factor_step,
    STOPS: tl.constexpr,
    FACTORS: tl.constexpr,
    PADDING: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write ``values [bags, width]``, of the dtype ``WIDE``.

    A program has a bag and ``COLUMNS`` of its columns, and takes ``ROWS`` of its rows at a time.
    """
    bag = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < width
    column_places = columns.to(tl.int64) * column_step
    start, end = _bag(offsets, offset_step, bag, bags, count, STOPS)
    total = tl.zeros((ROWS, COLUMNS), WIDE)
    for first in range(start, end, ROWS):
        places = first + tl.arange(0, ROWS)
        is_in = places < end
        row = tl.load(indices + places * index_step, mask=is_in, other=0).to(tl.int64)
        is_in = is_in & (row >= 0) & (row < rows)
        if PADDING >= 0:
            is_in = is_in & (row != PADDING)
        tile = tl.load(
            weight + (row * row_step)[:, None] + column_places[None, :],
            mask=is_in[:, None] & is_column[None, :],
            other=0,
        ).to(WIDE)
        if FACTORS:
            factor = tl.load(factors + places * factor_step, mask=is_in, other=0)
            tile *= factor.to(WIDE)[:, None]
        total += tile
    tl.store(values + bag * width + columns, tl.sum(total, 0), mask=is_column)


@triton.jit
def max_bags(
    weight,
    indices,
    offsets,
    values,
    chosen,
    rows,
    width,
    count,
    bags,
    row_step,
    column_step,
    index_step,
    offset_step,
    STOPS: tl.constexpr,
    PADDING: tl.constexpr,
    WIDE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write ``values`` and ``chosen [bags, width]``, of the dtypes of weight and indices.

    Both are 0 for an empty bag. Of equal rows the first is chosen.
    """
    bag = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < width
    column_places = columns.to(tl.int64) * column_step
    start, end = _bag(offsets, offset_step, bag, bags, count, STOPS)
    best = tl.zeros((COLUMNS,), WIDE)
    best_row = tl.full((COLUMNS,), -1, tl.int64)
    for place in range(start, end):
        row = tl.load(indices + place * index_step).to(tl.int64)
        is_in = (row >= 0) & (row < rows)
        if PADDING >= 0:
            is_in = is_in & (row != PADDING)
        # No column of a row that is left out; Triton 3.9's interpreter cannot spread a condition.
        is_read = columns < tl.where(is_in, width, 0)
        candidates = tl.load(weight + row * row_step + column_places, mask=is_read, other=0)
        candidates = candidates.to(WIDE)
        is_better = is_read & ((best_row < 0) | (candidates > best))
        best = tl.where(is_better, candidates, best)
        best_row = tl.where(is_better, row, best_row)
    tl.store(values + bag * width + columns, best.to(values.dtype.element_ty), mask=is_column)
    tl.store(
        chosen + bag * width + columns,
        tl.maximum(best_row, 0).to(chosen.dtype.element_ty),
        mask=is_column,
    )
