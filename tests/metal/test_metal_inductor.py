"""Kernels that Inductor makes for Apple GPUs, run on the host, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from address_spaces import check
from inductor_programs import Program, generate
from metal_library import Library, schedule
from of_function import OfFunction
from torch import nn
from torch.nn import functional

SCHEDULES = ("forward", "reverse", "shuffle:1")


def cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    half, bfloat = torch.float16, torch.bfloat16

    def elements(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return functional.silu(x) * y, torch.erf(x) + x.clamp(-0.5, 0.5), torch.fmod(x * 9, 2.0)

    def reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(-1), x.argmax(-1), x.amin(-1), x.prod(-1), x.var(-1), (x > 1).any(-1)

    def integers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x // y, x % y, (x * y - 3) ^ y, x.float() / y

    def index(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        twice = 2 * x  # first, as inputs come in the order of their use
        return torch.zeros(4, 9).index_add(1, i, twice), twice.gather(1, i.expand(4, -1) % 6)

    small = torch.randint(-50, 50, (40,))
    return {
        "elements": (OfFunction(elements), (torch.randn(5, 37), torch.randn(5, 37))),
        "half": (OfFunction(elements), (torch.randn(33).to(half), torch.randn(33).to(half))),
        "layer norm": (nn.LayerNorm(96), (torch.randn(6, 96),)),
        "bfloat layer norm": (nn.LayerNorm(64).to(bfloat), (torch.randn(4, 64).to(bfloat),)),
        "reductions": (OfFunction(reductions), (torch.randn(5, 70),)),
        "long rows": (OfFunction(lambda x: (x.softmax(-1), x.std(-1))), (torch.randn(2, 2500),)),
        "columns": (OfFunction(lambda x: x.sum(0)), (torch.randn(40, 11),)),
        "integers": (OfFunction(integers), (small, torch.randint(1, 9, (40,)))),
        "index": (OfFunction(index), (torch.randn(4, 6), torch.randint(0, 9, (6,)))),
    }


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {name: generate(module.eval(), inputs) for name, (module, inputs) in cases().items()}


@pytest.mark.parametrize("name", cases())
def test_results_are_those_of_eager(
    programs: dict[str, Program], compiled: Callable[[str], Library], name: str
) -> None:
    module, inputs = cases()[name]
    with torch.no_grad():
        expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    low = inputs[0].dtype in (torch.float16, torch.bfloat16)
    tolerance = 2e-2 if low else 1e-5
    for order in SCHEDULES:
        with schedule(order):
            outputs = programs[name].run(module, inputs, compiled)
        assert len(outputs) == len(expected)
        for output, wanted in zip(outputs, expected, strict=True):
            torch.testing.assert_close(output, wanted, rtol=tolerance, atol=tolerance)


def test_several_kinds_of_kernels_are_among_them(
    programs: dict[str, Program], compiled: Callable[[str], Library]
) -> None:
    texts = [text for program in programs.values() for text in program.sources.values()]
    waiting = [compiled(text)["generated_kernel"].waits for text in texts]
    assert len(texts) > 8
    assert {True, False} == set(waiting)


def test_address_spaces_are_right(programs: dict[str, Program]) -> None:
    for program in programs.values():
        for text in program.sources.values():
            check(text)


FAULTS = {
    "removed barrier": (
        "layer norm",
        "::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);",
        "",
        "without a barrier",
    ),
    "early return": (
        "layer norm", "auto tmp1 =", "if (r0_index == 95) return; auto tmp1 =", "divergent barrier"
    ),
    "wrong stride": ("layer norm", "[r0_1 + 96*x0]", "[r0_1 + 97*x0]", "reads 4 bytes at offset"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(
    programs: dict[str, Program], compiled: Callable[[str], Library], fault: str
) -> None:
    from metal_library import DispatchError

    name, old, new, message = FAULTS[fault]
    assert old in programs[name].wrapper
    module, inputs = cases()[name]
    broken = Program(programs[name].wrapper.replace(old, new, 1))
    for order in SCHEDULES:
        with schedule(order), pytest.raises(DispatchError, match=message):
            broken.run(module, inputs, compiled)
