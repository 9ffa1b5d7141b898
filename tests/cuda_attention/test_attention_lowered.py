"""Inductor compiles the kernels into the code of a program, without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda import lowering
from aoti_plugins.cuda.device import INDUCTOR_OPTIONS
from aoti_plugins.cuda.passes.attention_to_triton import attention_to_triton
from aoti_plugins.cuda.target import TARGETS
from aoti_plugins.lowering.inductor.generate import generate

pytest.importorskip("triton")


class Attention(nn.Module):
    """Attention over transposed views, heads joined afterwards."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        views = (tensor.transpose(1, 2) for tensor in (q, k, v))
        out = nn.functional.scaled_dot_product_attention(*views, mask, **self.options)
        return out.transpose(1, 2).flatten(2)


def lowered(model: nn.Module, inputs: tuple[Any, ...], target: str, **options: Any) -> Any:
    program = export(model, inputs, **options)
    attention_to_triton(program)
    names = set(program.graph_signature.user_inputs)
    examples = [n.meta["val"] for n in program.graph.nodes if n.name in names]
    found = next(t for t in TARGETS if t.name == target)
    return generate(
        program.module(),
        examples,
        {**INDUCTOR_OPTIONS, "max_autotune": False},
        lowering.environment(found, LoweringOptions()),
        "cuda:0",
    )


def tensors(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes)


def kernels(code: Any) -> set[str]:
    return {re.sub(r"^_*|_\d+_start$", "", kernel.symbol) for kernel in code.gpu_kernels}


def test_prefill_is_one_launch_over_the_views() -> None:
    shape = (2, 256, 8, 64)
    code = lowered(Attention(is_causal=True), tensors(shape, shape, shape), "h100")
    assert kernels(code) == {"attention_prefill"}


def test_decode_is_a_launch_and_one_to_combine() -> None:
    cache = (2, 4096, 2, 64)
    mask = torch.ones(2, 1, 1, 4096, dtype=torch.bool)
    inputs = (*tensors((2, 1, 8, 64), cache, cache), mask)
    code = lowered(Attention(enable_gqa=True), inputs, "a100")
    assert kernels(code) == {"attention_decode", "attention_combine"}


def test_dynamic_lengths_reach_the_kernel() -> None:
    shape = (2, 100, 8, 64)
    length = Dim("length", min=2, max=4096)
    inputs = tensors(shape, shape, shape)
    code = lowered(Attention(), inputs, "h100", dynamic_shapes=({1: length},) * 3)
    assert kernels(code) == {"attention_prefill"}
    assert "div_floor_integer" in code.wrapper  # the grid


def test_a_dynamic_number_of_queries_decides_when_the_program_runs() -> None:
    cache = (1, 2048, 2, 64)
    mask = torch.ones(1, 1, 20, 2048, dtype=torch.bool)
    inputs = (*tensors((1, 20, 8, 64), cache, cache), mask)
    length = Dim("length", min=1, max=2048)
    dims = ({1: length}, None, None, {2: length})
    code = lowered(Attention(enable_gqa=True), inputs, "h100", dynamic_shapes=dims)
    assert kernels(code) == {
        "attention_prefill",
        "attention_decode",
        "attention_combine",
        "mask_tiles",
    }


def test_layers_look_a_mask_over_once() -> None:
    class Layers(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            mask = mask.expand(2, 8, -1, -1)
            for _ in range(3):
                q = nn.functional.scaled_dot_product_attention(q, k, k, mask)
            return q

    shape = (2, 8, 128, 64)
    mask = torch.ones(2, 1, 128, 128, dtype=torch.bool)
    code = lowered(Layers(), (*tensors(shape, shape), mask), "h100")
    assert kernels(code) == {"attention_prefill", "mask_tiles"}
    calls = re.findall(r"^ +call_(\w+?)_\d+\(", code.wrapper, re.MULTILINE)
    assert calls == ["mask_tiles", *["attention_prefill"] * 3]


def test_one_kernel_for_equal_layers() -> None:
    class Twice(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            attend = nn.functional.scaled_dot_product_attention
            return attend(attend(q, k, k), k, k)

    code = lowered(Twice(), tensors((1, 8, 256, 64), (1, 8, 256, 64)), "h100")
    assert [kernel.symbol for kernel in code.gpu_kernels] == ["__attention_prefill_0_start"]
