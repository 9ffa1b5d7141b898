"""randint.low_out of the MPS runtime, from which generated code takes its seeds."""

from __future__ import annotations

import pytest
import torch
from mps_operators import OperatorError, Operators, ints

LEAST, MOST = -(2**63), 2**63 - 1


def draw(operators: Operators, out: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Random numbers in a tensor like ``out``."""
    tensor = operators.to_mps(out)
    sizes = ints(out.shape)
    operators.call("aoti_torch_mps_randint_low_out", tensor, low, high, sizes, out.dim())
    return tensor.torch()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_numbers_are_in_the_range_and_all_of_it(operators: Operators, dtype: torch.dtype) -> None:
    """More numbers than one dispatch takes, with a rest."""
    found = draw(operators, torch.full((3, 1777), 99).to(dtype), 3, 9)
    assert found.unique().tolist() == [3, 4, 5, 6, 7, 8]


def test_seeds_differ(operators: Operators) -> None:
    first = draw(operators, torch.zeros(600, dtype=torch.int64), LEAST, MOST)
    second = draw(operators, torch.zeros(600, dtype=torch.int64), LEAST, MOST)
    assert torch.cat([first, second]).unique().numel() == 1200
    assert (first < 0).any()


def test_it_comes_in_the_order_of_the_other_work(operators: Operators) -> None:
    """What a kernel reads before is as it was before."""
    zeros = torch.zeros(70, 70)
    out, before = operators.to_mps(zeros), operators.to_mps(zeros + 1)
    operators.call("aoti_torch_mps_mm_out", before, out, out)
    operators.call("aoti_torch_mps_randint_low_out", out, 5, 6, ints((70, 70)), 2)
    assert torch.equal(before.torch(), zeros)
    assert torch.equal(out.torch(), zeros + 5)


def test_none_are_drawn_for_an_empty_tensor(operators: Operators) -> None:
    assert draw(operators, torch.zeros(0, dtype=torch.int64), 0, 2).numel() == 0


def test_wrong_arguments(operators: Operators) -> None:
    out = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(OperatorError, match="from 4 and below 4, which leaves none"):
        draw(operators, out, 4, 4)
    with pytest.raises(OperatorError, match="out is not contiguous"):
        draw(operators, out.t(), 0, 2)
    with pytest.raises(OperatorError, match="out is on cpu, expected mps"):
        operators.call(
            "aoti_torch_mps_randint_low_out", operators.borrow(out), 0, 2, ints((2, 3)), 2
        )
    with pytest.raises(OperatorError, match="the sizes asked for are not those of out"):
        operators.call(
            "aoti_torch_mps_randint_low_out", operators.to_mps(out), 0, 2, ints((3, 2)), 2
        )
