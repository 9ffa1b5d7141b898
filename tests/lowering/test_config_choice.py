"""Choosing configurations without a GPU: by estimates, by records, and what makes records."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from decoder_blocks import Block
from torch import nn
from torch.nn import functional

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda.inductor import few_rows
from aoti_plugins.cuda.inductor.compiled_beside import CompiledBeside
from aoti_plugins.cuda.inductor.config_choice import (
    choose_configs,
    measured_configs,
    timed_fusions,
)
from aoti_plugins.cuda.inductor.kernel_choice import KernelChoice
from aoti_plugins.cuda.inductor.product_choice import with_cost_of_fusion
from aoti_plugins.cuda.target import TARGETS, CudaTarget, cuda_target_of
from aoti_plugins.cuda.tuning.records import KERNEL, PRODUCT, Entry, Records
from aoti_plugins.lowering.inductor.generate import generate

pytest.importorskip("triton")

from aoti_plugins.cuda import lowering
from aoti_plugins.cuda.device import INDUCTOR_OPTIONS

H100 = next(target for target in TARGETS if target.name == "h100")
GPU: CudaTarget = cuda_target_of(H100)


class Head(nn.Module):
    """A product, and a reduction over rows with several configurations."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.linear = nn.Linear(depth, 256, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x).float(), -1)


def _head(
    rows: int, depth: int = 512, dtype: torch.dtype = torch.bfloat16
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Head(depth).to(dtype).eval(), (torch.randn(rows, depth).to(dtype),)


def _generate(rows: int, *contexts: contextlib.AbstractContextManager[None]) -> Any:
    """The code of ``Head`` for an H100, with the contexts entered from left to right."""
    return _generate_model(*_head(rows), *contexts)


def _generate_model(
    model: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    *contexts: contextlib.AbstractContextManager[None],
    max_autotune: bool = True,
) -> Any:
    program = torch.export.export(model, inputs)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    fakes = [n.meta["val"] for n in placeholders if n.name in program.graph_signature.user_inputs]

    @contextlib.contextmanager
    def environment() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(lowering.environment(H100, LoweringOptions()))
            for context in contexts:
                stack.enter_context(context)
            yield

    options = {**INDUCTOR_OPTIONS, "max_autotune": max_autotune}
    options["max_autotune_gemm_backends"] = "ATEN,TRITON"
    return generate(program.module(), fakes, options, environment(), "cuda:0")


def test_estimates_decide_and_the_originals_are_back() -> None:
    from torch._inductor import config
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    patched = (
        (CachingAutotuner, "precompile"),
        (CachingAutotuner, "bench"),
        (AlgorithmSelectorCache, "make_precompile_fn"),
        (AlgorithmSelectorCache, "do_autotuning"),
        (AlgorithmSelectorCache, "__call__"),
    )
    before = [getattr(*one) for one in patched]
    fusion = getattr(config, timed_fusions())
    with choose_configs(GPU):
        assert all(getattr(*one) is not old for one, old in zip(patched, before, strict=True))
        assert not getattr(config, timed_fusions())
    assert [getattr(*one) for one in patched] == before
    assert getattr(config, timed_fusions()) == fusion


@pytest.fixture
def guesses(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets each candidate be guessed to be better than the one before it (-1), or worse (1)."""

    def guess_in_order(step: int) -> None:
        numbers = itertools.count(step, step)
        monkeypatch.setattr(KernelChoice, "_guess", lambda *given: next(numbers))

    return guess_in_order


def test_candidates_that_a_guess_rules_out_are_not_compiled(
    guesses: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    original = CompiledBeside.begin

    def begin(self: CompiledBeside, tuner: Any, compile_candidates: Callable[[], None]) -> None:
        if tuner.configs:  # else it is compiled already
            begun.append(len(tuner.configs))
        original(self, tuner, compile_candidates)

    monkeypatch.setattr(CompiledBeside, "begin", begin)
    model = Pointwise(lambda x: torch.softmax(x, -1))
    guesses(1)
    _generate_model(model, (torch.zeros(64, 256),), choose_configs(GPU))
    assert begun == [1]
    guesses(-1)
    _generate_model(model, (torch.zeros(96, 256),), choose_configs(GPU))
    assert len(begun) == 2
    assert 1 < begun[1] <= 4


def test_recorded_then_used(
    caplog: pytest.LogCaptureFixture, guesses: Callable[[int], None]
) -> None:
    # Without a GPU the estimates stand for measurements: records are made of them.
    guesses(-1)  # a kernel with one candidate left would not be measured
    made = Records()
    first = _generate(64, choose_configs(GPU), measured_configs(GPU, made))
    kinds = {entry.key.kind for entry in made}
    assert kinds == {KERNEL, PRODUCT}
    assert all(entry.made_with["gpu"] for entry in made)
    used = Records(made)
    caplog.set_level(logging.INFO, "aoti_plugins")
    second = _generate(64, choose_configs(GPU, used))
    assert not used.misses
    assert set(used.hits) == {entry.key for entry in made}
    assert "0 missing" in caplog.text
    assert first.wrapper == second.wrapper


def test_records_win_over_estimates(caplog: pytest.LogCaptureFixture) -> None:
    asked = Records()
    _generate(64, choose_configs(GPU, asked))
    assert "had nothing for the following" in caplog.text
    (product,) = (key for key in asked.misses if key.kind == PRODUCT)
    (kernel,) = (key for key in asked.misses if key.kind == KERNEL)
    library = Entry(product, {"choice": "cublaslt", "name": "mm"}, 1.0)
    blocks = Entry(kernel, {"XBLOCK": 2, "num_warps": 1, "num_stages": 1}, 1.0)
    chosen = Records([library, blocks])
    code = _generate(64, choose_configs(GPU, chosen))
    assert set(chosen.hits) == {product, kernel}
    assert "aoti_torch_cuda_mm_out" in code.wrapper


def test_records_that_do_not_fit_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    asked = Records()
    expected = _generate(64, choose_configs(GPU, asked))
    entries = [Entry(key, {"NONSENSE": 1, "num_warps": 1}, 1.0) for key in asked.misses]
    caplog.clear()
    code = _generate(64, choose_configs(GPU, Records(entries)))
    assert caplog.text.count("is ignored") == 2
    assert code.wrapper == expected.wrapper


@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.parametrize(
    ("rows", "depth", "dtype", "chosen"),
    [
        (1, 512, torch.bfloat16, True),
        (3, 512, torch.bfloat16, True),
        (8, 512, torch.bfloat16, False),
        (4, 32, torch.float32, True),
        (4, 16, torch.float32, False),
    ],
)
def test_few_rows(rows: int, depth: int, dtype: torch.dtype, chosen: bool) -> None:
    made = Records()
    _generate_model(*_head(rows, depth, dtype), choose_configs(GPU), measured_configs(GPU, made))
    (product,) = (entry for entry in made if entry.key.kind == PRODUCT)
    assert (product.config["name"] == f"triton_{few_rows.TEMPLATE_NAME}") == chosen


def test_a_template_must_be_clearly_faster_than_a_library() -> None:
    # By estimates of 47 and 49 us; it was slower when it ran.
    product = nn.Linear(2048, 16384, bias=False, dtype=torch.bfloat16).eval()
    inputs = (torch.randn(512, 2048, dtype=torch.bfloat16),)
    code = _generate_model(product, inputs, choose_configs(GPU))
    assert "aoti_torch_cuda_mm_out" in code.wrapper
    assert not any("triton_tem" in kernel.name for kernel in code.gpu_kernels)


def test_more_search_keeps_a_prompts_products() -> None:
    """What stands around products may not become slower either: all of the code is the same."""
    options: dict[str, Any] = {"joined": True, "inside": False, "activation": nn.SiLU()}
    block = Block(**options, width=2048, hidden=8192).bfloat16().eval()
    inputs = (torch.randn(512, 2048, dtype=torch.bfloat16),)
    plain, searched = (
        _generate_model(block, inputs, choose_configs(GPU), max_autotune=way)
        for way in (False, True)
    )
    assert "aoti_torch_cuda_mm_out" in plain.wrapper
    assert _what_runs(searched) == _what_runs(plain)


def _what_runs(code: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The wrapper without what it says about how kernels were found, and the kernels."""
    lines = [line for line in code.wrapper.splitlines() if "inductor_meta=" not in line]
    kernels = [
        (one.name, one.assembly, dict(one.config), one.shared_nbytes) for one in code.gpu_kernels
    ]
    return lines, kernels


@pytest.mark.parametrize(("rows", "generated"), [(4, True), (64, False)])
def test_without_autotuning_small_products_need_no_library(rows: int, generated: bool) -> None:
    # The library takes longer to open than such a program takes to load and run.
    code = _generate_model(*_head(rows), choose_configs(GPU), max_autotune=False)
    assert ("aoti_torch_cuda_mm_out" not in code.wrapper) == generated
    assert any("triton_tem" in kernel.name for kernel in code.gpu_kernels) == generated


class Pointwise(nn.Module):
    """A function that becomes one kernel."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


@pytest.mark.parametrize(
    ("function", "shapes", "held"),
    [
        (torch.relu, [(1 << 22,)], 8),
        (lambda x: functional.max_pool2d(x, 3, 2, 1), [(32, 64, 112, 112)], 2),
        (lambda x: functional.max_pool3d(x, 2), [(4, 64, 16, 64, 64)], 2),
        (torch.searchsorted, [(1 << 16,), (1 << 20,)], 1),
    ],
    ids=["in a row", "strided", "strided over planes", "search"],
)
def test_threads_hold_few_elements_where_they_load_from_far_apart(
    function: Callable[..., torch.Tensor], shapes: list[tuple[int, ...]], held: int
) -> None:
    inputs = tuple(torch.zeros(shape) for shape in shapes)
    code = _generate_model(Pointwise(function), inputs, choose_configs(GPU)).wrapper
    (block,) = re.findall(r"\(xnumel \+ \((\d+) - 1\)\)", code)
    (warps,) = re.findall(r"grid_0, grid_1, grid_2, (\d+),", code)
    assert int(block) / (int(warps) * 32) == held


@pytest.mark.parametrize(("rows", "depth", "one"), [(4, 64, True), (4, 256, False)])
def test_short_rows_are_reduced_by_one_warp(rows: int, depth: int, one: bool) -> None:
    softmax = Pointwise(lambda x: torch.softmax(x, -1))
    code = _generate_model(softmax, (torch.zeros(rows, depth),), choose_configs(GPU)).wrapper
    (warps,) = re.findall(r"grid_0, grid_1, grid_2, (\d+),", code)
    assert (warps == "1") == one


def test_what_torchao_turns_on_for_the_process_changes_nothing() -> None:
    """Its ``quantize_`` sets options of Inductor that stay."""
    from torch._inductor import config

    plain = _generate(4, choose_configs(GPU))
    with config.patch(coordinate_descent_tuning=True):
        assert _generate(4, choose_configs(GPU)).wrapper == plain.wrapper


@pytest.mark.parametrize("rows", [1, 2])
def test_a_norm_of_one_row_is_chosen_as_that_of_two(
    rows: int, guesses: Callable[[int], None]
) -> None:
    # With one row, Inductor's kernel has the number of rows as a constant.
    norm = Pointwise(lambda x: torch.rms_norm(x, (2048,)))
    code = _generate_model(norm, (torch.zeros(rows, 2048),), choose_configs(GPU)).wrapper
    assert re.findall(r"grid_0, grid_1, grid_2, (\d+),", code) == ["16"]
    guesses(-1)
    made = Records()
    _generate_model(
        norm, (torch.zeros(rows, 2048),), choose_configs(GPU), measured_configs(GPU, made)
    )
    (kernel,) = (entry for entry in made if entry.key.kind == KERNEL)
    assert kernel.config == {"XBLOCK": 1, "R0_BLOCK": 2048, "num_warps": 16, "num_stages": 1}


def test_a_library_pays_for_what_is_not_fused() -> None:
    from torch._inductor.select_algorithm import ExternKernelCaller, TritonTemplateCaller

    library = object.__new__(ExternKernelCaller)
    template = object.__new__(TritonTemplateCaller)
    close = with_cost_of_fusion({library: 0.0100, template: 0.0105})
    assert min(close, key=close.__getitem__) is template
    far = with_cost_of_fusion({library: 0.0100, template: 0.0150})
    assert min(far, key=far.__getitem__) is library
