"""Products with weights in blocks of GGUF files on emulated Apple GPUs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from exportable_weights import gguf_of, values_of
from mps_operators import OperatorError, Operators, check, optional

KINDS = ("q4_k", "q5_k", "q6_k")
N, K = 37, 512


def found(
    operators: Operators, x: torch.Tensor, blocks: torch.Tensor, kind: str, bias: Any = None
) -> torch.Tensor:
    added = None if bias is None else operators.to_mps(bias)
    (result,) = operators.results(
        "gguf_linear",
        1,
        operators.to_mps(x),
        operators.to_mps(blocks),
        optional(added),
        kind.encode(),
    )
    return result


def weight(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks, and what they stand for."""
    torch.manual_seed(len(kind))
    given = gguf_of(N, K, torch.float32, kind)
    return given.raw, values_of(given).float()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_a_matrix(operators: Operators, kind: str) -> None:
    """One row, four and one more, and so many that a matrix is made."""
    blocks, exact = weight(kind)
    for rows in (1, 5, 20):
        x, bias = torch.randn(rows, K), torch.randn(N)
        expected = x @ exact.t()
        check(lambda x=x: found(operators, x, blocks, kind), expected)
        check(lambda x=x, bias=bias: found(operators, x, blocks, kind, bias), expected + bias)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_dtypes(operators: Operators, dtype: torch.dtype) -> None:
    blocks, exact = weight("q6_k")
    x = torch.randn(3, K).to(dtype)
    check(lambda: found(operators, x, blocks, "q6_k"), (x.float() @ exact.t()).to(dtype))


@pytest.mark.parametrize("rows", [3, 20])
def test_rows_in_any_layout(operators: Operators, rows: int) -> None:
    blocks, exact = weight("q4_k")
    x = torch.randn(K, rows).t()
    expected = x @ exact.t()
    check(lambda: found(operators, x, blocks, "q4_k"), expected)
    moved = torch.cat([torch.zeros(1), x.flatten()])[1:].view(1, rows, 1, K)
    check(lambda: found(operators, moved, blocks, "q4_k"), expected.reshape(1, rows, 1, N))


def test_no_rows(operators: Operators) -> None:
    assert found(operators, torch.zeros(0, K), weight("q4_k")[0], "q4_k").shape == (0, N)


@pytest.mark.parametrize(
    ("x", "kind", "bias", "reason"),
    [
        (torch.zeros(2, K), "q3_k", None, "blocks of kind q3_k, expected q4_k"),
        (torch.zeros(2, K), "q5_k", None, "288 bytes: not 176 for each 256"),
        (torch.zeros(2, 256), "q4_k", None, "rows of x have 256 elements"),
        (torch.zeros(2, K, dtype=torch.int8), "q4_k", None, "x is int8, expected float32"),
        (torch.tensor(1.0), "q4_k", None, "x has no dims"),
        (torch.zeros(2, K), "q4_k", torch.zeros(N).half(), "bias is not contiguous float32"),
        (torch.zeros(2, K), "q4_k", torch.zeros(N + 1), "bias is not floats, one for each of 37"),
    ],
)
def test_what_does_not_fit_is_refused(
    operators: Operators, x: torch.Tensor, kind: str, bias: Any, reason: str
) -> None:
    with pytest.raises(OperatorError, match=reason):
        found(operators, x, weight("q4_k")[0], kind, bias)
