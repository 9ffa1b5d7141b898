"""Random whole modules, as users write them, equal eager PyTorch.

A failure prints the module and its inputs as a program that makes them again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from random_module_packs import CALLS, copied, problems
from random_modules import RandomModule, random_module
from reordered_modules import PACKS
from torch import nn
from torch.utils import _pytree as pytree

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

TOGETHER = 20  # compiling takes most of the time

pytestmark = [
    # Eager's words on its own functions, and Inductor's on casts between two dtypes of 16 bits.
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

Lower = Callable[[nn.Module, tuple[Any, ...]], bytes]


def _check(first: int, count: int, lower: Lower) -> None:
    _check_all([random_module(seed) for seed in range(first, first + count)], lower)


def _check_all(modules: Sequence[RandomModule], lower: Lower) -> None:
    def run(model: nn.Module, inputs: tuple[Any, ...]) -> list[list[Any]]:
        flat = pytree.tree_leaves(inputs)
        with torch.no_grad():  # autograd lets nobody write to one of several results, as of split
            lowered = lower(model, inputs)
        with Program(lowered) as program:
            return [[copied(value) for value in program(*flat)] for _ in range(CALLS)]

    found = problems(modules, run)
    assert not found, "\n\n".join([f"{len(found)} of {len(modules)} modules", *found])


def test_a_seed_gives_one_module() -> None:
    one, again = random_module(7), random_module(7)
    assert str(one) == str(again)
    assert str(one) != str(random_module(8))
    torch.testing.assert_close(one.make()(*one.example()), again.make()(*again.example()))


def test_values_are_those_that_were_looked_at_while_writing() -> None:
    """Ties, and what lies near an integer, are refused by value."""
    seen = 0
    for seed in range(150):
        program = random_module(seed)
        calls = [line for line in program.source.splitlines() if ".topk(" in line]
        if not calls or "self.layer" in calls[0]:
            continue
        module, values = program.make(), {}
        names = (f"x{index}" for index in range(9))
        values.update(zip(names, program.example(), strict=False))
        values.update({"torch": torch, "nn": nn, "F": torch.nn.functional, "self": module})
        for line in program.source.partition("def forward")[2].splitlines()[1:]:
            if line.strip().startswith("return"):
                break
            exec(line.strip(), values)
            found = re.fullmatch(r"(v\d+), v\d+, = v?x?\d+\.topk\(\d+, (-?\d+).*\)", line.strip())
            if found and values[found[1]].dim():
                gaps = values[found[1]].double().diff(dim=int(found[2]))
                assert not gaps.numel() or gaps.abs().min() >= 1e-2
                seen += 1
    assert seen > 3


def test_what_is_printed_makes_the_module_again() -> None:
    for seed in range(5):
        program = random_module(seed)
        space: dict[str, Any] = {"torch": torch, "nn": nn, "F": torch.nn.functional}
        exec(str(program), space)
        expected = program.make()(*program.example())
        torch.testing.assert_close(space["module"](*space["inputs"]), expected)


def test_the_exact_module_is_in_float64_throughout() -> None:
    program = random_module(367)
    assert ".float()" in program.source
    assert problems([program], lambda model, inputs: [_leaves(model, inputs)] * CALLS) == []


def _leaves(model: nn.Module, inputs: tuple[Any, ...]) -> list[Any]:
    return [copied(value) for value in pytree.tree_leaves(model(*inputs))]


NORM_OF_EQUAL_VALUES = """class Module(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x0):
        v1 = F.layer_norm(x0.expand(-1, 3), (3,))
        return v1
"""


def test_what_is_rounded_on_the_way_may_be_rounded_otherwise() -> None:
    """Nothing is left of equal values but what a mean of them was rounded by, times 316."""
    program = RandomModule(0, NORM_OF_EQUAL_VALUES, ("torch.rand(50, 1) + 0.5",))

    def otherwise(model: nn.Module, inputs: tuple[Any, ...]) -> list[list[Any]]:
        x = inputs[0].expand(-1, 3)
        around = x - x.sum(-1, keepdim=True) * (1 / 3)
        return [[around / (around.square().mean(-1, keepdim=True) + 1e-5).sqrt()]] * CALLS

    assert problems([program], otherwise) == []


def test_a_wrong_value_is_found() -> None:
    def wrong(model: nn.Module, inputs: tuple[Any, ...]) -> list[list[Any]]:
        calls = []
        for _ in range(CALLS):
            values = [copied(value) for value in pytree.tree_leaves(model(*inputs))]
            calls.append(values)
        last = next(value for value in reversed(calls[1]) if value.numel())
        last.view(-1)[-1] = ~last.view(-1)[-1] if last.dtype == torch.bool else last.max() + 1
        return calls

    programs = [random_module(seed) for seed in range(3)]
    (found,) = problems(programs, wrong)
    assert "call 1, output" in found
    assert str(programs[2]) in found


@pytest.mark.parametrize("where", PACKS)
def test_no_kernel_is_moved(where: str, lower_whole: Lower) -> None:
    """Kernels are moved to need less memory, and to be joined."""
    _check_all(PACKS[where], lower_whole)


def test_a_few(lower_whole: Lower) -> None:
    _check(0, 6, lower_whole)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(500))
def test_many(part: int, lower_many: Lower) -> None:
    """10,000 modules; run the parts side by side (``-n 2``)."""
    _check(part * TOGETHER, TOGETHER, lower_many)


def _whole_for_a_gpu(model: nn.Module, inputs: tuple[Any, ...]) -> bytes:
    exported = torch.export.export(model, inputs)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # what is right is float64's
        program = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    return bytes(program.to_executorch().buffer)


@pytest.mark.gpu
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(50))
def test_many_on_a_gpu(part: int) -> None:
    """1000 modules, lowered for the GPU that is there."""
    _check(part * TOGETHER, TOGETHER, _whole_for_a_gpu)
