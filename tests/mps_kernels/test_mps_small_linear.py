"""Products with weights of 4 and 8 bits on emulated Apple GPUs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from mps_operators import OperatorError, Operators, check, optional

from aoti_plugins.lowering.small_weights.packed import pack, values
from aoti_plugins.lowering.small_weights.weight import ADDED_ZERO, NO_ZERO, ZERO_POINT

Given = dict[str, Any]


def product(
    m: int,
    n: int,
    k: int,
    bits: int,
    size: int,
    zero_kind: int,
    dtype: torch.dtype = torch.float32,
    scale_dtype: torch.dtype = torch.float32,
    has_bias: bool = False,
) -> Given:
    """Any arguments of these sizes."""
    torch.manual_seed(m + n + k + bits + zero_kind)
    low, high, kind = (0, 16, torch.uint8) if bits == 4 else (-128, 128, torch.int8)
    zeros = torch.randint(0, 9, (n, k // size)) / (8 if zero_kind == ADDED_ZERO else 1)
    return {
        "x": torch.randn(m, k).to(dtype),
        "codes": pack(torch.randint(low, high, (n, k)).to(kind), bits, size),
        "scale": (torch.rand(n, k // size) / 16).to(scale_dtype),
        "zero": None if zero_kind == NO_ZERO else zeros.to(scale_dtype),
        "bias": torch.randn(n).to(dtype) if has_bias else None,
        "bits": bits,
        "zero_kind": zero_kind,
    }


def found(operators: Operators, given: Given) -> torch.Tensor:
    held = {
        name: None if given[name] is None else operators.to_mps(given[name])
        for name in ("x", "codes", "scale", "zero", "bias")
    }
    (result,) = operators.results(
        "small_linear",
        1,
        held["x"],
        None,
        None,
        held["codes"],
        held["scale"],
        optional(held["zero"]),
        optional(held["bias"]),
        given["bits"],
        given["zero_kind"],
    )
    return result


def expected(given: Given) -> torch.Tensor:
    names = ("codes", "scale", "zero", "bits", "zero_kind")
    weight = values(*(given[name] for name in names), torch.float32)
    bias = None if given["bias"] is None else given["bias"].float()
    result = torch.nn.functional.linear(given["x"].float(), weight, bias)
    return result.to(given["x"].dtype)


@pytest.mark.parametrize("zero_kind", [NO_ZERO, ZERO_POINT, ADDED_ZERO])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_and_tiles(operators: Operators, bits: int, zero_kind: int) -> None:
    """One row, four, the plain tiles, and those of simdgroups; parts of all of them."""
    for m, n, k, size in ((1, 37, 96, 32), (4, 70, 320, 64), (5, 9, 64, 64), (70, 65, 96, 32)):
        given = product(m, n, k, bits, size, zero_kind, has_bias=m != 4)
        check(lambda given=given: found(operators, given), expected(given))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_dtypes(operators: Operators, dtype: torch.dtype) -> None:
    for m in (2, 40):
        for scale_dtype in (dtype, torch.float32):
            given = product(m, 40, 128, 4, 32, ZERO_POINT, dtype, scale_dtype, has_bias=True)
            check(lambda given=given: found(operators, given), expected(given))


@pytest.mark.parametrize("m", [1, 3, 40])
def test_rows_in_any_layout(operators: Operators, m: int) -> None:
    """Transposed ones are copied; those whose memory is not aligned to four go by tiles."""
    given = product(m, 40, 128, 8, 128, NO_ZERO)
    wanted = expected(given)
    turned = given | {"x": given["x"].t().contiguous().t()}
    check(lambda: found(operators, turned), wanted)
    moved = torch.cat([torch.zeros(1), given["x"].flatten()])[1:].view(m, 128)
    check(lambda: found(operators, given | {"x": moved}), wanted)
    many = given | {"x": given["x"].reshape(1, m, 1, 128)}
    check(lambda: found(operators, many), wanted.reshape(1, m, 1, 40))


def test_no_rows(operators: Operators) -> None:
    given = product(0, 40, 128, 4, 32, NO_ZERO)
    assert found(operators, given).shape == (0, 40)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"x": torch.zeros(2, 64)}, "rows of x have 64 elements, those of the weight 128"),
        ({"x": torch.zeros(2, 128, dtype=torch.int32)}, "x is int32, expected float32"),
        ({"x": torch.tensor(1.0)}, "x has no dims"),
        ({"codes": torch.zeros(40, 64, dtype=torch.int8)}, "codes are int8 of 2 dims"),
        ({"scale": torch.ones(40, 3)}, "128 weights of a row in 3 groups"),
        ({"scale": torch.ones(4, 40).t()}, "scales and zeros are not contiguous"),
        ({"zero": torch.ones(40, 4)}, "zero_kind is 0, and there are zeros"),
        ({"zero_kind": 1}, "zero_kind is 1, and there are no zeros"),
        (
            {"zero_kind": 1, "zero": torch.ones(40, 4).half()},
            "scales and zeros are not contiguous floats of one dtype",
        ),
        ({"bias": torch.zeros(40).half()}, "bias is not contiguous float32"),
        ({"bias": torch.zeros(41)}, "bias is not floats, one for each of 40 columns"),
        ({"bits": 5}, "weights of 5 bits"),
    ],
)
def test_what_does_not_fit_is_refused(operators: Operators, changed: Given, reason: str) -> None:
    given = product(2, 40, 128, 4, 32, NO_ZERO) | changed
    with pytest.raises(OperatorError, match=reason):
        found(operators, given)


def test_tensors_of_the_cpu_are_refused(operators: Operators) -> None:
    given = product(2, 40, 128, 4, 32, NO_ZERO)
    held = [operators.borrow(given[name]) for name in ("x", "codes", "scale")]
    with pytest.raises(OperatorError, match="x is on cpu, expected mps"):
        operators.results(
            "small_linear", 1, held[0], None, None, held[1], held[2], None, None, 4, 0
        )
