"""Fourier transforms on emulated Apple GPUs."""

from __future__ import annotations

import pytest
import torch
from mps_operators import OperatorError, Operators, check, ints, random

# Lengths: a power of two, mixed factors, a prime, and 1.
LENGTHS = [16, 32, 60, 13, 1]


def fft(
    operators: Operators, kind: str, x: torch.Tensor, dims: list[int], how: int, flag: bool
) -> torch.Tensor:
    arguments = (ints(dims), len(dims), how, int(flag))
    return operators.results(f"_fft_{kind}", 1, operators.to_mps(x), *arguments)[0]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("onesided", [False, True])
def test_real(operators: Operators, length: int, onesided: bool) -> None:
    x = random(torch.float32, 3, length)
    wanted = torch.ops.aten._fft_r2c(x, [1], 0, onesided)
    check(lambda: fft(operators, "r2c", x, [1], 0, onesided), wanted)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("forward", [False, True])
def test_complex(operators: Operators, length: int, forward: bool) -> None:
    x = torch.complex(random(torch.float32, 2, length), random(torch.float32, 2, length, seed=1))
    wanted = torch.ops.aten._fft_c2c(x, [1], 2, forward)
    check(lambda: fft(operators, "c2c", x, [1], 2, forward), wanted)


@pytest.mark.parametrize("how", [0, 1, 2])
def test_several_dims(operators: Operators, how: int) -> None:
    x = random(torch.float32, 2, 6, 5, 8)
    wanted = torch.ops.aten._fft_r2c(x, [1, 2, 3], how, True)
    check(lambda: fft(operators, "r2c", x, [1, 2, 3], how, True), wanted)
    z = torch.complex(x, random(torch.float32, 2, 6, 5, 8, seed=1))
    wanted = torch.ops.aten._fft_c2c(z, [2, 3], how, True)
    check(lambda: fft(operators, "c2c", z, [2, 3], how, True), wanted)


def test_no_lines(operators: Operators) -> None:
    assert fft(operators, "r2c", torch.zeros(0, 8), [1], 0, True).shape == (0, 5)


@pytest.mark.parametrize(
    ("x", "dims", "reason"),
    [
        (torch.zeros(4, 4), [0], "not the last 1 of 2"),
        (torch.zeros(4, 4).t()[:, :2], [1], "not row-major"),
        (torch.zeros(4, 4), [1, 1], "named twice"),
        (torch.zeros(4, 4).half(), [1], "no real transform of float16"),
        (torch.zeros(4, 0), [1], "has no elements"),
        (torch.zeros(4, 4), [2], "out of range"),
    ],
)
def test_wrong_arguments(
    operators: Operators, x: torch.Tensor, dims: list[int], reason: str
) -> None:
    with pytest.raises(OperatorError, match=reason):
        fft(operators, "r2c", x, dims, 0, True)
