"""Attention on emulated Apple GPUs."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from mps_operators import OperatorError, Operators, check, optional, random

_SHIM = "_scaled_dot_product_attention_math_for_mps_v2"
Sizes = tuple[int, ...]

# Sizes of query, key and value for each kernel: by tiles, by rows, and a long cache in pieces.
TILES = ((2, 2, 40, 20), (2, 2, 50, 20), (2, 2, 50, 12))
CAUSAL_TILES = ((1, 2, 70, 16), (1, 2, 70, 16), (1, 2, 70, 16))
ROWS = ((2, 3, 3, 33), (2, 3, 17, 33), (2, 3, 17, 65))
CACHE = ((1, 4, 1, 64), (1, 2, 600, 64), (1, 2, 600, 64))
WIDE = ((1, 1, 9, 160), (1, 1, 20, 160), (1, 1, 20, 160))


def attend(
    operators: Operators,
    tensors: list[torch.Tensor],
    mask: torch.Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
) -> torch.Tensor:
    added = operators.to_mps(mask) if mask is not None else None
    factor = ctypes.byref(ctypes.c_double(scale)) if scale is not None else None
    result, weights = operators.results(
        _SHIM,
        2,
        *map(operators.to_mps, tensors),
        optional(added),
        0.0,
        int(causal),
        None,
        factor,
        int(grouped),
    )
    assert weights.numel() == 0
    return result


def expected(
    tensors: list[torch.Tensor], mask: torch.Tensor | None = None, **options: Any
) -> torch.Tensor:
    """What eager gives, in float32."""
    q, k, v = (t.float() for t in tensors)
    bias = mask.float() if mask is not None and mask.is_floating_point() else mask
    names = {"causal": "is_causal", "grouped": "enable_gqa"}
    named = {names.get(name, name): value for name, value in options.items()}
    result = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, **named)
    return result.to(tensors[0].dtype)


def make(
    sizes: tuple[Sizes, Sizes, Sizes], dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    return [random(dtype, *size, seed=i) for i, size in enumerate(sizes)]


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "tiles": (TILES, {}),
    "tiles_scale": (TILES, {"scale": 0.7}),
    "tiles_causal": (CAUSAL_TILES, {"causal": True}),
    "rows": (ROWS, {}),
    "rows_causal": (ROWS, {"causal": True}),
    "cache": (CACHE, {"grouped": True}),
    "wide": (WIDE, {}),
    "tiles_grouped": (((1, 6, 8, 24), (1, 2, 9, 24), (1, 2, 9, 24)), {"grouped": True}),
    "unbatched": (((2, 9, 8), (2, 12, 8), (2, 12, 8)), {}),
    "five_dims": (((2, 3, 2, 4, 8), (2, 3, 2, 5, 8), (2, 3, 2, 5, 8)), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_attention(operators: Operators, name: str) -> None:
    sizes, options = CASES[name]
    tensors = make(sizes)
    check(lambda: attend(operators, tensors, **options), expected(tensors, **options))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=() if quick else pytest.mark.long)
        for dtype in (torch.float16, torch.bfloat16)
        for name in CASES
        for quick in [name in ("tiles", "cache")]
    ],
    ids=str,
)
def test_reduced_precision(operators: Operators, name: str, dtype: torch.dtype) -> None:
    sizes, options = CASES[name]
    tensors = make(sizes, dtype)
    check(lambda: attend(operators, tensors, **options), expected(tensors, **options))


@pytest.mark.parametrize("sizes", [TILES, ROWS], ids=["tiles", "rows"])
@pytest.mark.parametrize("kind", ["full", "heads", "rows_only", "keys_only", "one_batch"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
def test_masks_broadcast(
    operators: Operators, sizes: tuple[Sizes, Sizes, Sizes], kind: str, dtype: torch.dtype
) -> None:
    (batch, heads, rows, _), (_, _, keys, _), _ = sizes
    shapes = {
        "full": (batch, heads, rows, keys),
        "heads": (batch, 1, rows, keys),
        "rows_only": (rows, keys),
        "keys_only": (batch, 1, 1, keys),
        "one_batch": (1, heads, 1, keys),
    }
    mask = random(torch.bool, *shapes[kind])
    mask[..., 0] = True  # rows without a key are another test's
    if dtype != torch.bool:
        mask = random(dtype, *shapes[kind]).masked_fill(~mask, -torch.inf)
    tensors = make(sizes)
    check(lambda: attend(operators, tensors, mask), expected(tensors, mask))


@pytest.mark.long
@pytest.mark.parametrize("sizes", [TILES, ROWS, CACHE], ids=["tiles", "rows", "cache"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask_dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_masks_of_any_float(
    operators: Operators,
    sizes: tuple[Sizes, Sizes, Sizes],
    dtype: torch.dtype,
    mask_dtype: torch.dtype,
) -> None:
    tensors = make(sizes, dtype)
    mask = random(mask_dtype, sizes[0][-2], sizes[1][-2])
    wanted = expected(tensors, mask, grouped=True)
    check(lambda: attend(operators, tensors, mask, grouped=True), wanted)


def test_heads_between_rows(operators: Operators) -> None:
    tensors = [random(torch.float32, 1, 16, 2, 32, seed=i).transpose(1, 2) for i in range(3)]
    check(lambda: attend(operators, tensors), expected(tensors))
    few = [tensors[0][:, :, :2], *tensors[1:]]
    check(lambda: attend(operators, few), expected(few))


@pytest.mark.parametrize("sizes", [TILES, ROWS, CACHE], ids=["tiles", "rows", "cache"])
def test_a_row_without_keys_is_zero(
    operators: Operators, sizes: tuple[Sizes, Sizes, Sizes]
) -> None:
    tensors = make(sizes)
    mask = torch.ones(sizes[0][-2], sizes[1][-2], dtype=torch.bool)
    mask[0] = False
    result = attend(operators, tensors, mask, grouped=True)
    assert torch.equal(result[:, :, 0], torch.zeros_like(result[:, :, 0]))
    check(
        lambda: attend(operators, tensors, mask, grouped=True),
        expected(tensors, mask, grouped=True),
    )


@pytest.mark.parametrize("rows", [3, 9])
def test_a_row_that_is_not_a_number_spoils_no_other(operators: Operators, rows: int) -> None:
    tensors = make(((1, 1, rows, 8), (1, 1, 40, 8), (1, 1, 40, 8)))
    tensors[0][0, 0, 1, 2] = torch.nan
    check(lambda: attend(operators, tensors), expected(tensors))


def test_no_keys(operators: Operators) -> None:
    tensors = make(((1, 2, 3, 8), (1, 2, 0, 8), (1, 2, 0, 8)))
    check(lambda: attend(operators, tensors), torch.zeros(1, 2, 3, 8))
    nothing = make(((0, 2, 3, 8), (0, 2, 4, 8), (0, 2, 4, 8)))
    assert attend(operators, nothing).shape == (0, 2, 3, 8)


@pytest.mark.parametrize(
    ("sizes", "mask", "reason"),
    [
        (((1, 2, 3, 8), (1, 2, 4, 9), (1, 2, 4, 8)), None, "9 elements, expected 8"),
        (((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 5, 8)), None, "4 keys and 5 values"),
        (((1, 4, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8)), None, "without enable_gqa"),
        (((3, 8), (4, 8), (4, 8)), None, "expected 3 or more"),
        (((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8)), torch.zeros(3, 5), "does not broadcast"),
        (((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8)), torch.zeros(3, 4).int(), "a mask of int32"),
    ],
)
def test_wrong_arguments(
    operators: Operators, sizes: Any, mask: torch.Tensor | None, reason: str
) -> None:
    with pytest.raises(OperatorError, match=reason):
        attend(operators, make(sizes), mask)
