"""Attention of one token with its rotation and its cache: recognised, equal, lowered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.token_attentions import token_attentions

HEADS, KV_HEADS, SIZE, CAPACITY = 4, 2, 64, 48
WIDTH = HEADS * SIZE


def angles(position: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    half = position.float()[:, None] * torch.arange(SIZE // 2) / 7
    both = torch.cat((half, half), -1)
    return both.cos().to(dtype), both.sin().to(dtype)


class HeadNorm(nn.Module):
    """A root-mean-square norm of each head, as Qwen3 has it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(SIZE) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.float()
        rows = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * rows.to(x.dtype)


class Attention(nn.Module):
    """Grouped heads over a cache, with what models differ in.

    ``repeats``: heads are repeated in memory; ``window``: how many positions are attended to;
    ``per_head``: the mask has a row for each head; ``read``: the cache is also returned.
    """

    def __init__(
        self,
        *,
        repeats: bool = False,
        norms: bool = False,
        window: int = CAPACITY,
        per_head: bool = False,
        read: bool = False,
        halves: str = "chunk",
    ) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.options = (repeats, window, per_head, read, halves)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, KV_HEADS * SIZE, bias=False)
        self.value = nn.Linear(WIDTH, KV_HEADS * SIZE, bias=False)
        self.norms = nn.ModuleList(HeadNorm() for _ in range(2)) if norms else None
        self.register_buffer("keys", torch.randn(1, KV_HEADS, CAPACITY, SIZE))
        self.register_buffer("values", torch.randn(1, KV_HEADS, CAPACITY, SIZE))

    def forward(
        self, x: Tensor, position: Tensor, pair: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, ...]:
        repeats, window, per_head, read, _ = self.options
        sizes = (1, 1, -1, SIZE)
        query, key = self.query(x).view(sizes), self.key(x).view(sizes)
        if self.norms is not None:
            query, key = self.norms[0](query), self.norms[1](key)
        pair = angles(position, x.dtype) if pair is None else pair
        query, key = (self.rotated(one.transpose(1, 2), *pair) for one in (query, key))
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, self.value(x).view(sizes).transpose(1, 2))
        at = torch.arange(CAPACITY)
        mask = ((at <= position[:, None]) & (at > position[:, None] - window))[None, None]
        if per_head:
            mask = mask.expand(1, HEADS, 1, CAPACITY) & (at % 2 == 0)
            mask = mask | torch.ones(1, HEADS, 1, 1, dtype=torch.bool)
        keys, values = self.keys, self.values
        if repeats:
            keys, values = (one.repeat_interleave(2, 1) for one in (keys, values))
        found = nn.functional.scaled_dot_product_attention(
            query, keys, values, mask, enable_gqa=not repeats
        )
        out = found.transpose(1, 2).reshape(1, 1, WIDTH)
        return (out, self.keys.sum()) if read else (out,)

    def rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if self.options[-1] == "chunk":
            first, second = x.chunk(2, -1)
        else:
            first, second = x[..., : SIZE // 2], x[..., SIZE // 2 :]
        return x * cos + torch.cat((-second, first), -1) * sin


def inputs(position: int = 20) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    return torch.randn(1, 1, WIDTH).bfloat16(), torch.tensor([position])


def exported(**options: Any) -> ExportedProgram:
    model = Attention(**options).bfloat16().eval()
    program = export(model, inputs()).run_decompositions({})
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # not ExecuTorch's
            program.graph.erase_node(node)
    return program


def called(program: ExportedProgram) -> list[dict[str, Any]]:
    """Arguments of the ops that took attention in."""
    nodes = [n for n in program.graph.nodes if "auto_functionalized" in str(n.target)]
    return [node.kwargs for node in nodes]


def assert_near(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


FORMS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "repeated heads": {"repeats": True},
    "norms of heads": {"norms": True},
    "a window": {"window": 7},
    "slices": {"halves": "slices"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("position", [0, 20, CAPACITY - 1])
def test_it_becomes_one_op_with_the_same_results(form: str, position: int) -> None:
    program = exported(**FORMS[form])
    expected_module, given = program.module(), inputs(position)
    token_attentions(program)
    (arguments,) = called(program)
    assert (arguments["query_norm"] is not None) == ("norms" in form)
    ops = {str(node.target) for node in program.graph.nodes}
    assert not any("index_copy" in op or "dot_product" in op for op in ops)
    found_module = program.module()
    for at in (position, min(position + 1, CAPACITY - 1)):
        step = (given[0], torch.tensor([at]))
        torch.testing.assert_close(
            found_module(*step), expected_module(*step), atol=2e-2, rtol=2e-2
        )
    found, expected = (dict(one.named_buffers()) for one in (found_module, expected_module))
    for name in ("keys", "values"):
        assert_near(found[name], expected[name])


@pytest.mark.parametrize("options", [{"per_head": True}, {"read": True}])
def test_what_is_not_for_it_stays(options: dict[str, Any]) -> None:
    program = exported(**options)
    before = [str(node.target) for node in program.graph.nodes]
    token_attentions(program)
    assert [str(node.target) for node in program.graph.nodes] == before


@pytest.mark.parametrize("dtype", [torch.float32])
def test_other_dtypes_stay(dtype: torch.dtype) -> None:
    program = export(Attention().to(dtype).eval(), (inputs()[0].to(dtype), inputs()[1]))
    program = program.run_decompositions({})
    token_attentions(program)
    assert not called(program)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        pair = angles(position, x.dtype)
        for layer in self.layers:
            begin = position[0].clone()  # as each layer of a cache of transformers has it
            x = x + layer(x, torch.arange(1) + begin, pair)[0]
        return x


def test_layers_share_what_they_look_at(tmp_path: Path) -> None:
    """Angles and positions are computed once, and caches are written in place."""
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    lower(Two().bfloat16().eval(), inputs(), partitioner=partitioner)
    (wrapper,) = tmp_path.glob("*/wrapper.cpp")
    lines = [line.strip() for line in wrapper.read_text().splitlines()]
    calls = [line for line in lines if "CHECK(aoti_torch_cuda_token_attention(" in line]
    assert len(calls) == 2
    for layer, call in enumerate(calls):
        assert f"layers_{layer}_keys" in call
        assert f"layers_{layer}_values" in call
    kernels = [line for line in lines if line.startswith("call_triton_")]
    assert len([line for line in kernels if "_cos_" in line]) == 1
    assert len([line for line in kernels if "_arange_select" in line]) == 1


TRANSFORMERS = {"llama": "LlamaConfig", "qwen3": "Qwen3Config"}


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_decoders_of_transformers(kind: str) -> None:
    """All layers of the method for single tokens, which then give the same scores."""
    import transformers

    from aoti_plugins.language.export import export_decoder

    torch.manual_seed(5)
    config = getattr(transformers, TRANSFORMERS[kind])(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=SIZE,
        max_position_embeddings=32,
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    program = export_decoder(model, 32, "prefill-decode")["decode"].run_decompositions({})
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # not ExecuTorch's
            program.graph.erase_node(node)
    plain = program.module()
    token_attentions(program)
    assert len(called(program)) == 2
    assert all((one["query_norm"] is not None) == (kind == "qwen3") for one in called(program))
    taken_in = program.module()
    for position, token in enumerate((3, 7, 40, 7)):
        step = torch.tensor([[token]]), torch.tensor([position])
        assert_near(taken_in(*step), plain(*step))
