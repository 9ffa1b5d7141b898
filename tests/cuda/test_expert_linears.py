"""Products with matrices of chosen experts: recognised with what stands behind, lowered."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from decoder_blocks import Norm, as_pipeline_has_it
from expert_blocks import CHOSEN, EXPERTS, GROUP, INNER, WIDTH, Experts, Fused, Normed
from support import lower, weights_nbytes
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.gates import Gate
from aoti_plugins.cuda.passes.expert_linears import expert_linears
from aoti_plugins.cuda.passes.routers import routers
from aoti_plugins.cuda.passes.row_linears import row_linears
from aoti_plugins.lowering.passes.chosen_matrices import chosen_matrices

EXPERT_LINEAR = "aoti_plugins.expert_linear.default"
ROW_LINEAR = "aoti_plugins.row_linear.default"
SHIM = "aoti_torch_cuda_expert_linear"


def after_passes(
    model: nn.Module, *inputs: Tensor, has_row_kernel: bool = True, **kwargs: Any
) -> ExportedProgram:
    program = as_pipeline_has_it(model, inputs, **kwargs)
    # What the first passes of the pipeline do with it.
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
    chosen_matrices(program)
    routers(program)
    expert_linears(program, has_row_kernel)
    if has_row_kernel:
        row_linears(program)
    return program


def arguments(node: Any) -> dict[str, Any]:
    return {
        argument.name: value
        for argument, value in zip(node.target._schema.arguments, node.args, strict=True)
    }


def lowered(model: Experts) -> bytes:
    return bytes(lower(model, (tokens(1),), partitioner=CudaPartitioner(target="h100")).buffer)


def products(program: ExportedProgram) -> list[Any]:
    return [node for node in program.graph.nodes if str(node.target) == EXPERT_LINEAR]


def tokens(count: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    torch.manual_seed(count)
    return torch.randn(1, count, WIDTH, dtype=dtype)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("count", [1, 3])
def test_experts_become_two_products(bits: int, count: int) -> None:
    model, x = Experts(bits), tokens(count)
    program = after_passes(model, x)
    nodes = products(program)
    first, second = map(arguments, nodes)
    assert first["x"].meta["val"].shape == (count, WIDTH)  # once, for all its experts
    assert (first["factors"], first["residual"], first["norm"]) == (None, None, None)
    assert (first["count"], first["gate"], first["is_second"]) == (EXPERTS, Gate.SILU, False)
    assert (first["bits"], first["group_size"], first["zero_kind"]) == (bits, GROUP, 0)
    assert second["factors"].meta["val"].shape == (count, CHOSEN)
    assert second["residual"].meta["val"].shape == (count, WIDTH)
    assert second["x"] is nodes[0]
    assert second["is_second"]
    exact = model.exact(x)
    error = (program.module()(x).double() - exact).norm()
    assert error <= 1.2 * (model(x).double() - exact).norm()


MORE = torch.ones(1, dtype=torch.bfloat16)


def test_a_norm_of_any_number_of_tokens() -> None:
    model, shapes = Normed(), ({1: Dim("tokens", max=64)}, None)
    program = after_passes(model, tokens(3), MORE, dynamic_shapes=shapes)
    assert [arguments(node)["norm"] for node in products(program)] == [None, None]
    for count in (1, 3, 40):
        x = tokens(count)
        torch.testing.assert_close(program.module()(x, MORE), model(x, MORE), rtol=0.03, atol=0.03)


def test_a_norm_of_one_token_is_no_kernel() -> None:
    model, x = Normed(), tokens(1)
    program = after_passes(model, x, MORE)
    first, second = map(arguments, products(program))
    program.graph.lint()
    ops = [node.op for node in program.graph.nodes]
    inputs = ops.count("placeholder")
    assert ops[:inputs] == ["placeholder"] * inputs  # also where the row is an input
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    (scores,) = (node for node in called if str(node.target) == ROW_LINEAR)
    of_router = arguments(scores)
    assert of_router["norm"] is first["norm"] is not None
    assert of_router["x"] is first["x"]
    assert of_router["epsilon"] == first["epsilon"] == 1e-5
    assert second["norm"] is None
    assert not [node for node in called if node.target is torch.ops.aten.rsqrt.default]
    torch.testing.assert_close(program.module()(x, MORE), model(x, MORE), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("count", "bits", "has_row_kernel"), [(2, 4, True), (1, 4, False), (1, 8, True)]
)
def test_a_norm_that_stays(count: int, bits: int, has_row_kernel: bool) -> None:
    """Of several rows, and where one row has no kernel that takes it in."""
    program = after_passes(Normed(bits), tokens(count), MORE, has_row_kernel=has_row_kernel)
    assert [arguments(node)["norm"] for node in products(program)] == [None, None]
    is_of_router = ROW_LINEAR in [str(node.target) for node in program.graph.nodes]
    assert is_of_router == (count == 1 and has_row_kernel)


class NormedFused(nn.Module):
    """ExecuTorch's op behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = Fused("fused_moe")
        self.norm = Norm(inside=False, width=WIDTH).bfloat16()

    def forward(self, x: Tensor, experts: Tensor, shares: Tensor) -> Tensor:
        return self.fused(self.norm(x), experts, shares)


def test_a_norm_in_front_of_upstreams_op() -> None:
    given = tokens(1)[0], torch.tensor([[0, 4]]), torch.rand(1, CHOSEN)
    program = after_passes(NormedFused(), *given)
    first, second = map(arguments, products(program))
    assert first["x"] == given_name(program, 0)
    assert (first["norm"] is None, second["norm"] is None) == (False, True)


def test_any_number_of_tokens() -> None:
    model = Experts()
    tokens_of_call = Dim("tokens", max=64)
    program = after_passes(model, tokens(3), dynamic_shapes=({1: tokens_of_call},))
    assert len(products(program)) == 2
    for count in (1, 3, 40):
        x = tokens(count)
        exact = model.exact(x)
        error = (program.module()(x).double() - exact).norm()
        assert error <= 1.2 * (model(x).double() - exact).norm()


def test_what_the_kernels_do_not_take() -> None:
    for model, dtype in (
        (Experts(None), torch.bfloat16),  # weights of 16 bits
        (Experts(dtype=torch.float32), torch.float32),
        (Experts(group=GROUP // 2), torch.bfloat16),
    ):
        program = after_passes(model, tokens(1, dtype))
        assert not products(program)
        chosen = torch.ops.aoti_plugins.chosen_products.default
        assert [node.target for node in program.graph.nodes].count(chosen) == 2
        x = tokens(1, dtype)
        torch.testing.assert_close(program.module()(x), model(x), rtol=0.03, atol=0.03)


class Router(nn.Module):
    """A softmax over scores, and the largest shares."""

    def __init__(self, normalised: bool, read: bool = False, dim: int = -1) -> None:
        super().__init__()
        self.normalised, self.read, self.dim = normalised, read, dim

    def forward(self, scores: Tensor) -> tuple[Tensor, ...]:
        shares = scores.softmax(self.dim, torch.float32)
        found, experts = shares.topk(3, dim=self.dim)
        if self.normalised:
            found = found / found.sum(self.dim, keepdim=True)
        return (found.to(scores.dtype), experts, *([shares] if self.read else []))


CHOSEN_EXPERTS = torch.ops.aoti_plugins.chosen_experts.default


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("normalised", [False, True])
def test_a_router_becomes_one_op(normalised: bool, dtype: torch.dtype) -> None:
    model, scores = Router(normalised), torch.randn(2, 40).to(dtype)
    program = as_pipeline_has_it(model, (scores,))
    routers(program)
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    (choice,) = (node for node in called if node.target is CHOSEN_EXPERTS)
    assert choice.args[1:] == (3, normalised)
    assert len(called) == 3 + (dtype != torch.float32)  # its two results, and another dtype
    for found, expected in zip(program.module()(scores), model(scores), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("model", "count"),
    [(Router(True, read=True), 40), (Router(True, dim=0), 40), (Router(True), 600)],
)
def test_what_is_no_router(model: Router, count: int) -> None:
    program = as_pipeline_has_it(model, (torch.randn(4, count),))
    routers(program)
    assert CHOSEN_EXPERTS not in [node.target for node in program.graph.nodes]


class Others(nn.Module):
    """Experts whose results are used in other ways."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = Experts().mlp.experts

    def forward(self, x: Tensor, experts: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        first, second = self.experts.gate_up_proj, self.experts.down_proj
        rows = x.repeat_interleave(2, 0)
        up = torch.bmm(first[experts], rows.unsqueeze(-1)).squeeze(-1)
        gate, other = up.chunk(2, -1)
        gated = nn.functional.silu(gate) * other
        down = torch.bmm(second[experts], gated.unsqueeze(-1)).squeeze(-1)
        shared = (down * shares.unsqueeze(-1)).view(-1, 2, WIDTH)
        return up, down, shared.sum(1), shared.amax(1)


def test_numbers_of_32_bits() -> None:
    model = Others()
    x, shares = tokens(2)[0], torch.rand(4).bfloat16()
    experts = torch.tensor([0, 5, 3, 3], dtype=torch.int32)
    program = after_passes(model, x, experts, shares)
    assert {node.args[1].meta["val"].dtype for node in products(program)} == {torch.int64}


def test_what_others_read_is_there() -> None:
    model = Others()
    x, experts, shares = tokens(2)[0], torch.tensor([0, -1, 3, 3]), torch.rand(4).bfloat16()
    program = after_passes(model, x, experts, shares)
    first, second = products(program)
    assert (arguments(first)["gate"], arguments(second)["factors"]) == (Gate.NONE, None)
    assert not arguments(second)["is_second"]  # others stand between
    for found, expected in zip(
        program.module()(x, experts, shares), model(x, experts, shares), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


def test_rows_that_were_put_in_order() -> None:
    """As transformers has it without being told: the products, by themselves."""
    model = Experts(implementation="grouped_mm")
    assert lowered(model).count(SHIM.encode()) > 0


def test_four_bits_are_held_in_four_bits() -> None:
    program = lowered(Experts())
    weights = EXPERTS * 3 * INNER * WIDTH
    needed = weights // 2 + weights // GROUP * 2
    assert program.count(SHIM.encode()) > 0
    assert needed <= weights_nbytes(program) <= 1.05 * needed


@pytest.mark.parametrize("name", ["fused_moe", "fused_moe_batched_gemm"])
def test_upstreams_op_becomes_two(name: str) -> None:
    model = Fused(name)
    given = tokens(3)[0], torch.tensor([[0, 1], [5, 5], [2, 0]]), torch.rand(3, CHOSEN)
    program = after_passes(model, *given)
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    first, second = products(program)
    assert called[-1] is second
    assert arguments(first)["gate"] == Gate.SILU
    assert arguments(second)["residual"] == given_name(program, 0)
    assert arguments(second)["is_second"]
    exact = model.exact(*given)
    error = (program.module()(*given).double() - exact).norm()
    assert error <= 0.01 * exact.norm()


def given_name(program: ExportedProgram, place: int) -> Any:
    name = program.graph_signature.user_inputs[place]
    return next(node for node in program.graph.nodes if node.name == name)
