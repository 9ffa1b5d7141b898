"""What the pass replaces by the op, what it leaves alone, and that nobody sees a difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from aoti_plugins.cuda.passes.attention_to_triton import attention_to_triton
from aoti_plugins.lowering.passes.edge_to_aten import edge_to_aten
from aoti_plugins.lowering.passes.restore_views import restore_views
from aoti_plugins.lowering.passes.same_elements import is_copy

Tensors = tuple[torch.Tensor, ...]


class Model(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def attend(**options: Any) -> Callable[..., torch.Tensor]:
    """Attention over transposed views, as projections give them: inputs are [b, s, h, d]."""

    def function(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        views = (tensor.transpose(1, 2) for tensor in (q, k, v))
        return scaled_dot_product_attention(*views, mask, **options).transpose(1, 2)

    return function


def repeat_by_reshape(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    def repeat(x: torch.Tensor) -> torch.Tensor:
        b, h, s, d = x.shape
        return x[:, :, None].expand(b, h, 2, s, d).reshape(b, 2 * h, s, d)

    return scaled_dot_product_attention(q, repeat(k), repeat(v))


def repeat_interleaved(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(
        q, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
    )


def repeat_side_by_side(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))


def expand_one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    heads = q.shape[1]
    k, v = (x[:, :1].expand(-1, heads, -1, -1) for x in (k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=True)


Change = Callable[[torch.Tensor], torch.Tensor]


def copied(change: Change) -> Callable[..., torch.Tensor]:
    """Attention over copies of changed inputs, as Whisper has it."""

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        copies = (change(tensor).contiguous() for tensor in (q, k, v))
        return scaled_dot_product_attention(*copies)

    return function


def overwritten(q: torch.Tensor, k: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Attention over a copy of keys that get other values meanwhile."""
    k = k * 1
    copy = k.transpose(1, 2).contiguous()
    k.copy_(new)
    return scaled_dot_product_attention(q.transpose(1, 2), copy, copy)


def random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


Q, KV = (2, 7, 4, 16), (2, 9, 2, 16)
COLUMNS = ((2, 4, 16, 7), (2, 4, 16, 9), (2, 4, 16, 9))
BHSD = ((2, 4, 7, 16), (2, 2, 9, 16), (2, 2, 9, 16))


def replaced(program: ExportedProgram) -> list[torch.fx.Node]:
    attention_to_triton(program)
    return [n for n in program.graph.nodes if "aoti_plugins.attention" in str(n.target)]


def edge_program(function: Callable[..., torch.Tensor], inputs: Tensors) -> ExportedProgram:
    """What a backend gets, after the passes that bring it back to ATen ops and views."""
    options = EdgeCompileConfig(
        preserve_ops=[torch.ops.aten.scaled_dot_product_attention.default],
        _check_ir_validity=False,
    )
    lowered = to_edge(export(Model(function), inputs), compile_config=options)
    program = lowered.exported_program()
    edge_to_aten(program)
    restore_views(program)
    return program


def left(program: ExportedProgram) -> set[str]:
    return {str(node.target) for node in program.graph.nodes if node.op == "call_function"}


TAKEN = {
    "plain": (attend(), random(Q, Q, Q)),
    "causal": (attend(is_causal=True), random(Q, Q, Q)),
    "scaled": (attend(scale=0.3), random(Q, Q, Q)),
    "grouped": (attend(enable_gqa=True), random(Q, KV, KV)),
    "float16": (attend(), random(Q, Q, Q, dtype=torch.float16)),
    "bfloat16": (attend(is_causal=True), random(Q, Q, Q, dtype=torch.bfloat16)),
    "added mask": (attend(), random(Q, Q, Q, (2, 1, 7, 7))),
    "bool mask": (attend(), (*random(Q, Q, Q), torch.ones(7, 7, dtype=torch.bool).tril())),
    "empty rows": (attend(), (*random(Q, Q, Q), torch.zeros(7, 7, dtype=torch.bool))),
    "padding": (
        lambda q, k, n: scaled_dot_product_attention(
            q, k, k, (torch.arange(100) < n).expand(80, 100)
        ),
        (*random((2, 4, 80, 16), (2, 4, 100, 16)), torch.tensor(60)),
    ),
    "one bias": (
        lambda q, k, n: scaled_dot_product_attention(q, k, k, n.expand(2, 1, 80, 100)),
        (*random((2, 4, 80, 16), (2, 4, 100, 16)), torch.tensor(0.5)),
    ),
    "other value size": (attend(), random(Q, Q, (2, 7, 4, 24))),
    "copied": (copied(lambda x: x.transpose(1, 2)), random(Q, Q, Q)),
    "copied columns": (copied(lambda x: x.transpose(-2, -1)), random(*COLUMNS)),
    "copied columns of heads": (
        copied(lambda x: x.transpose(-1, -2).transpose(1, 2)),
        random((2, 7, 16, 4), (2, 9, 16, 4), (2, 9, 16, 4)),
    ),
    "copied channels": (
        copied(lambda x: x.transpose(1, 2).reshape(2, -1, 4, 16).transpose(1, 2)),
        random((2, 64, 7), (2, 64, 9), (2, 64, 9)),
    ),
    "overwritten": (overwritten, random(Q, Q, Q)),
    "three dims": (scaled_dot_product_attention, random((4, 7, 16), (4, 9, 16), (4, 9, 16))),
    "repeat_by_reshape": (repeat_by_reshape, random(*BHSD)),
    "repeat_interleaved": (repeat_interleaved, random(*BHSD)),
    "repeat_side_by_side": (repeat_side_by_side, random(*BHSD)),
    "expand_one_head": (expand_one_head, random(*BHSD)),
}


@pytest.fixture(autouse=True)
def _triton() -> None:
    pytest.importorskip("triton")


@pytest.mark.parametrize("name", TAKEN)
def test_is_replaced_and_computes_the_same(name: str) -> None:
    function, inputs = TAKEN[name]
    program = export(Model(function), inputs)
    before = [n for n in program.graph.nodes if "scaled_dot_product" in str(n.target)]
    (node,) = replaced(program)
    assert not {op for op in left(program) if "scaled_dot_product" in op}
    assert node.meta["stack_trace"] == before[0].meta["stack_trace"]
    assert node.meta["nn_module_stack"] == before[0].meta["nn_module_stack"]
    assert node.meta["val"].stride() == before[0].meta["val"].stride()
    actual, expected = program.module()(*inputs), function(*inputs)
    assert actual.stride() == expected.stride()
    tolerance = 1e-5 if inputs[0].dtype == torch.float32 else 1e-2
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["repeat_by_reshape", "repeat_interleaved", "expand_one_head"])
def test_repeated_heads_are_read_once(name: str) -> None:
    function, inputs = TAKEN[name]
    (node,) = replaced(edge_program(function, inputs))
    heads = 1 if name == "expand_one_head" else 2
    assert [argument.meta["val"].shape[1] for argument in node.args[1:3]] == [heads, heads]


@pytest.mark.parametrize("is_edge", [False, True])
@pytest.mark.parametrize("name", [name for name in TAKEN if name.startswith("copied")])
def test_copies_of_whole_heads_are_not_made(name: str, is_edge: bool) -> None:
    function, inputs = TAKEN[name]
    program = edge_program(function, inputs) if is_edge else export(Model(function), inputs)
    (node,) = replaced(program)
    expected = name != "copied"  # elsewhere the elements of a head are not in a row
    assert [is_copy(argument) for argument in node.args[:3]] == [expected] * 3


def test_heads_side_by_side_are_not_taken_for_groups() -> None:
    function, inputs = TAKEN["repeat_side_by_side"]
    (node,) = replaced(export(Model(function), inputs))
    assert node.args[1].meta["val"].shape[1] == 4


def layers(*inputs: torch.Tensor) -> torch.Tensor:
    q, k, mask = inputs
    for _ in range(2):
        q = scaled_dot_product_attention(q, k, k, mask.expand(-1, q.shape[1], -1, -1))
    return q


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_attentions_share_the_tiles_of_a_mask(dtype: torch.dtype) -> None:
    allowed = torch.arange(150) <= torch.arange(40, 140)[:, None]
    added = torch.zeros(100, 150).masked_fill(~allowed, -torch.inf)
    mask = (allowed if dtype == torch.bool else added).expand(2, 1, -1, -1)
    inputs = (*random((2, 4, 100, 16), (2, 4, 150, 16)), mask)
    program = export(Model(layers), inputs)
    one, other = replaced(program)
    assert one.args[3] is other.args[3]
    assert one.args[3].meta["val"].shape == (2, 1, 100, 150)
    tiles = one.args[4]
    assert tiles is other.args[4]
    assert tiles.meta["val"].shape == (2, 1, 2, 3)
    torch.testing.assert_close(program.module()(*inputs), layers(*inputs))
    found = torch.ops.aoti_plugins.mask_tiles(mask)
    assert found.tolist() == [[[[1, 1, 0], [2, 1, 1]]]] * 2


def test_a_mask_that_changes_is_looked_over_for_each_attention() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        mask = mask.clone()
        q = scaled_dot_product_attention(q, k, k, mask)
        mask[:, 64:] = False
        return scaled_dot_product_attention(q, k, k, mask)

    mask = torch.ones(100, 150, dtype=torch.bool)
    program = export(Model(function), (*random((2, 4, 100, 16), (2, 4, 150, 16)), mask))
    assert [node.args[4] for node in replaced(program)] == [None, None]


def test_few_queries_need_no_tiles() -> None:
    mask = torch.ones(7, 9, dtype=torch.bool)
    (node,) = replaced(export(Model(attend(enable_gqa=True)), (*random(Q, KV, KV), mask)))
    assert node.args[4] is None


LEFT_ALONE = {
    "dropout": (attend(dropout_p=0.5), random(Q, Q, Q)),
    "float64": (attend(), random(Q, Q, Q, dtype=torch.float64)),
    "head too large": (attend(), random(*[(2, 7, 4, 264)] * 3)),
    "five dims": (scaled_dot_product_attention, random(*[(2, 2, 4, 7, 16)] * 3)),
    "negative scale": (attend(scale=-1.0), random(Q, Q, Q)),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_is_left_alone(name: str) -> None:
    function, inputs = LEFT_ALONE[name]
    program = export(Model(function), inputs)
    before = left(program)
    assert not replaced(program)
    assert left(program) == before


@pytest.mark.parametrize("name", ["causal", "grouped", "three dims", "repeat_by_reshape"])
def test_in_an_edge_program(name: str) -> None:
    function, inputs = TAKEN[name]
    program = edge_program(function, inputs)
    assert len(replaced(program)) == 1
    torch.testing.assert_close(program.module()(*inputs), function(*inputs))


def test_heads_come_next_to_each_other_where_they_are_joined() -> None:
    function, inputs = TAKEN["causal"]
    (node,) = replaced(edge_program(lambda *args: function(*args).flatten(2) + 1, inputs))
    assert node.args[-1] == [0, 2, 1, 3]


def test_a_result_that_leaves_the_program_keeps_its_layout() -> None:
    (node,) = replaced(edge_program(scaled_dot_product_attention, random(*[BHSD[0]] * 3)))
    assert node.args[-1] == [0, 1, 2, 3]


@pytest.mark.parametrize("masked", [False, True])
def test_the_fused_op_of_the_cpu(masked: bool) -> None:
    inputs = random(Q, Q, Q, (7, 7)) if masked else random(Q, Q, Q)
    function = attend()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        program = export(Model(function), inputs).run_decompositions(
            {
                torch.ops.aten.scaled_dot_product_attention.default: (
                    lambda q, k, v, m=None, p=0.0, causal=False: (
                        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(
                            q, k, v, p, causal, attn_mask=m
                        )[0]
                    )
                )
            }
        )
    assert "aten._scaled_dot_product_flash_attention_for_cpu.default" in left(program)
    assert len(replaced(program)) == 1
    assert not {op for op in left(program) if "flash" in op or "getitem" in op}
    torch.testing.assert_close(program.module()(*inputs), function(*inputs))


def test_an_op_whose_other_result_is_used_stays() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, logarithms = fused(q, k, v)
        return out * logarithms[..., None]

    program = export(Model(function), random(*[BHSD[0]] * 3))
    assert not replaced(program)


def test_dynamic_lengths_stay_dynamic() -> None:
    inputs = random(Q, Q, Q)
    length = Dim("length", min=2, max=64)
    program = export(Model(attend(is_causal=True)), inputs, dynamic_shapes=(({1: length},) * 3,))
    assert len(replaced(program)) == 1
    longer = random(*[(2, 33, 4, 16)] * 3)
    torch.testing.assert_close(program.module()(*longer), attend(is_causal=True)(*longer))


def test_attention_in_a_branch() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            q.sum() > 0,
            lambda q, k, v: scaled_dot_product_attention(q, k, v),
            lambda q, k, v: q * 2,
            (q, k, v),
        )

    program = export(Model(function), random(*[(2, 4, 7, 16)] * 3))
    attention_to_triton(program)
    ops = {
        str(node.target)
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    }
    assert "aoti_plugins.attention.default" in ops
    assert "aten.scaled_dot_product_attention.default" not in ops
