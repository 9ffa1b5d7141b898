"""Maxima over windows on the CPU: of channels-last images, and of numbers of 8 bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
import torch
from each_model import Each
from torch import Tensor, nn
from torch._inductor.sizevars import stride_at_vec_range
from torch.export import ExportedProgram, export
from torch.nn.functional import max_pool2d

from aoti_plugins.cpu.inductor import clamped_places, max_pools
from aoti_plugins.cpu.passes.pools_of_numbers import pools_of_numbers

Called = Callable[[ExportedProgram], list[str]]
Run = Callable[..., list[Tensor]]

POOLS = [
    nn.MaxPool2d(3, 2, 1),
    nn.MaxPool2d(3, 1, 1),
    nn.MaxPool2d((2, 3), (2, 1), (1, 1)),
    nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    nn.MaxPool2d(2, 2, 0, ceil_mode=True),
    nn.MaxPool2d(3, 1, 1, dilation=2),
    nn.MaxPool2d(3, 2, 1, return_indices=True),
]


class Pooled(nn.Module):
    """A convolution, so that images are channels-last, and a maximum over windows of its result."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(3, 16, 1)
        self.pool = pool

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = self.pool(self.convolution(x))
        return found if isinstance(found, tuple) else (found,)


def test_windows_at_edges(run: Run) -> None:
    model = Each(Pooled(pool) for pool in POOLS)
    images = [torch.randn(2, 3, 11, 12) - 3 for _ in POOLS]  # below 0, which padding must not win
    images[0][0, :, 0, 0] = torch.nan
    expected = [one for result in model(images) for one in result]
    for found, value in zip(run(model, images), expected, strict=True):
        torch.testing.assert_close(found, value, equal_nan=True)


def test_no_element_is_asked_whether_it_is_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """But where the place of the maximum is wanted, or windows have gaps."""
    read: list[bool] = []
    original = max_pools._is_plain_max_pool

    def noted() -> bool:
        read.append(original())
        return read[-1]

    monkeypatch.setattr(max_pools, "_is_plain_max_pool", noted)
    chosen = [POOLS[0], POOLS[5], POOLS[6]]
    run(Each(Pooled(pool) for pool in chosen), [torch.randn(1, 3, 8, 8) for _ in chosen])
    assert read[-3:] == [True, False, False]


def test_strides_of_clamped_places() -> None:
    """Those that Inductor finds, without minima and maxima for sympy to simplify."""
    asked: list[sympy.Expr] = []

    def original(index: sympy.Expr, *others: object) -> sympy.Expr:
        asked.append(index)
        return stride_at_vec_range(index, *others)

    def stride(index: sympy.Expr, var: sympy.Symbol) -> sympy.Expr:
        return clamped_places._stride(original, index, var, 8)

    row, column, channel, other = sympy.symbols("d0:4", integer=True, nonnegative=True)
    inside = sympy.Min(sympy.Max(2 * row - 1, 0), 10)
    index = 64 * inside + 8 * column + channel
    assert [stride(index, var) for var in (channel, column, other)] == [1, 8, 0]
    assert stride(channel * inside, channel) == inside
    assert asked
    assert not any(one.has(sympy.Min, sympy.Max) for one in asked)
    between = stride(index, row)  # none that is the same everywhere
    assert not between.is_number
    for place in range(8):
        expected = index.subs(row, place + 1) - index.subs(row, place)
        assert between.subs(row, place) == expected


class Numbers(nn.Module):
    """A maximum between steps to and from numbers of 8 bits."""

    def __init__(self, behind: float = 0.05, window: int = 3) -> None:
        super().__init__()
        self.behind = behind
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        ops = torch.ops.quantized_decomposed
        rest = (-128, 127, torch.int8)
        numbers = ops.quantize_per_tensor(x, 0.05, 3, *rest)
        floats = ops.dequantize_per_tensor(numbers, 0.05, 3, *rest)
        most = max_pool2d(floats, self.window, 2, self.window // 2)
        numbers = ops.quantize_per_tensor(most, self.behind, 3, *rest)
        return ops.dequantize_per_tensor(numbers, self.behind, 3, *rest)


@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.parametrize(
    ("behind", "window", "is_taken"), [(0.05, 3, 1), (0.04, 3, 0), (0.05, 7, 0)]
)
def test_numbers_stay_numbers(
    called: Called, is_decomposed: bool, behind: float, window: int, is_taken: int
) -> None:
    x = torch.randn(1, 8, 14, 14) * 4
    program = export(Numbers(behind, window).eval(), (x,))
    if is_decomposed:
        program = program.run_decompositions()
    pools_of_numbers(program)
    names = called(program)
    steps = [name for name in names if name.startswith("quantized_decomposed::")]
    assert len(steps) == 4 - 2 * is_taken
    (pool,) = (node for node in program.graph.nodes if "max_pool2d" in str(node.target))
    dtype = pool.args[0].meta["val"].dtype
    assert dtype == (torch.int8 if is_taken else torch.float32)


def test_numbers_are_those_of_eager(run: Run) -> None:
    x = torch.randn(2, 8, 15, 14) * 8  # some beyond what the numbers hold
    (found,) = run(Numbers(), x)
    torch.testing.assert_close(found, Numbers()(x), rtol=0, atol=0)
