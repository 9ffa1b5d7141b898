"""Products whose codes are scaled behind them, as torchao's ``Int8WeightOnlyConfig`` has them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from aoti_plugins.lowering.passes.scaled_products import scaled_products
from aoti_plugins.lowering.small_weights.sources import weight_of

N, K = 24, 64
LINEAR = ["aoti_plugins.packed_weight.default", "aten.linear.default"]


class Scaled(nn.Module):
    """What torchao computes of int8 codes, in variations."""

    def __init__(self, form: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.form = form
        self.register_buffer("codes", torch.randint(-128, 128, (N, K), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(N, 1) / 100)
        self.register_buffer("bias", torch.randn(N).to(dtype))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        rows = x.reshape(-1, K)
        product = torch.mm(rows, self.codes.t().to(x.dtype))
        if self.form == "codes alone":
            return product
        if self.form == "scaled by rows":
            return product * x.reshape(-1, K)[:, :1]
        scaled = product * self.scale.to(x.dtype).view(-1)
        if self.form == "read between":
            return scaled, product
        if self.form == "rows stay two dims":
            return scaled
        if self.form == "other dims":
            return scaled.reshape(-1, 2, N) + self.bias
        found = scaled.reshape(*x.shape[:-1], N)
        return found + self.bias if self.form == "with a bias" else found


def targets(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def without_assertions(program: ExportedProgram) -> None:
    """As ExecuTorch leaves them out."""
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            program.graph.erase_node(node)


def rewritten(form: str, dtype: torch.dtype = torch.float32) -> list[str]:
    """Check that results stay; the ops that there are then."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, K).to(dtype)
    program = export(Scaled(form, dtype), (x,)).run_decompositions({})
    expected = program.module()(x)
    without_assertions(program)
    scaled_products(program)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.1}
    torch.testing.assert_close(program.module()(x), expected, **close)
    return targets(program)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", ["with a bias", "without"])
def test_one_product_is_left(form: str, dtype: torch.dtype) -> None:
    assert rewritten(form, dtype) == LINEAR


def test_codes_that_nothing_scales() -> None:
    view, *others = rewritten("codes alone")
    assert (view, others) == ("aten.view.default", LINEAR)


@pytest.mark.parametrize(
    ("form", "kept"),
    [
        ("rows stay two dims", []),
        ("other dims", ["aten.view.default", "aten.add.Tensor"]),
        ("scaled by rows", ["aten.slice.Tensor", "aten.mul.Tensor"]),
        ("read between", ["aten.mul.Tensor"]),
    ],
)
def test_what_others_read_or_is_no_column_stays(form: str, kept: list[str]) -> None:
    found = rewritten(form)
    assert all(name in found for name in (*LINEAR, *kept))
    assert "aten.mm.default" not in found


def test_codes_that_are_no_constants_stay() -> None:
    class Computed(nn.Module):
        def forward(self, x: Tensor, codes: Tensor) -> Tensor:
            return torch.mm(x, codes.t().to(x.dtype))

    inputs = torch.randn(2, K), torch.zeros(N, K, dtype=torch.int8)
    program = export(Computed(), inputs).run_decompositions({})
    before = targets(program)
    scaled_products(program)
    assert targets(program) == before


class Twice(nn.Module):
    """The same codes, with two scales and with none."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(-128, 128, (N, K), dtype=torch.int8))
        self.register_buffer("first", torch.rand(N) / 100)
        self.register_buffer("second", torch.rand(N) / 100)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        scales = (self.first, self.second, None)
        products = [torch.mm(x, self.codes.t().to(x.dtype)) for _ in scales]
        return tuple(
            one if scale is None else one * scale
            for one, scale in zip(products, scales, strict=True)
        )


def test_codes_of_several_weights() -> None:
    torch.manual_seed(0)
    model, x = Twice(), torch.randn(2, K)
    program = export(model, (x,)).run_decompositions({})
    without_assertions(program)
    scaled_products(program)
    assert targets(program) == LINEAR * 3
    weights = [one for one in program.graph.nodes if one.target is torch.ops.aten.linear.default]
    small = [weight_of(program, one.args[1]) for one in weights]
    assert len({one.name for one in small if one is not None}) == 3
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
