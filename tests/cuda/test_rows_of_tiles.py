"""An embedding that is also a head, on NVIDIA GPUs: rows of the tiles that the product reads."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from exportable_weights import OneProduct, Rows, Tied
from small_tables import TABLES, Plain, values_of
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from aoti_plugins.cuda.passes.rows_of_tiles import rows_of_tiles
from aoti_plugins.cuda.passes.small_weights import small_weights
from aoti_plugins.cuda.small_weights import layout
from aoti_plugins.lowering.passes.constants_as_bits import constants_as_bits
from aoti_plugins.lowering.passes.equal_weights import equal_weights
from aoti_plugins.lowering.passes.gathered_rows import gathered_rows

N, K = 64, 512
WITHOUT_TILES = ("q6_k", "nvfp4", "mxfp8")
NUMBERS = torch.tensor([[63, 0, 5], [8, 7, 5]])


class Apart(nn.Module):
    """An embedding and a head with a weight each."""

    def __init__(self, embedding: Any, head: Any) -> None:
        super().__init__()
        self.rows, self.product = Rows(embedding), OneProduct(head)

    def forward(self, numbers: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.rows(numbers), self.product(x)


def run_passes(program: ExportedProgram) -> list[str]:
    """Those for weights of few bits; returns our ops in the program."""
    for one in (constants_as_bits, gathered_rows, small_weights, rows_of_tiles):
        one(program)
    found = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    return [name for name in found if name.startswith("aoti_plugins.")]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("k", [64, 200, 256])
def test_rows_of_a_layout(bits: int, k: int) -> None:
    low, high, dtype = (0, 16, torch.uint8) if bits == 4 else (-128, 128, torch.int8)
    codes, groups = torch.randint(low, high, (24, k), dtype=dtype), torch.randn(24, 5)
    rows = torch.tensor([[5, 23, -1], [0, 8, 5]])
    found = layout.codes_of_rows(layout.pack_codes(codes, bits), rows, bits, k)
    assert torch.equal(found, codes[rows].to(torch.int32))
    assert torch.equal(layout.groups_of_rows(layout.pack_groups(groups), rows), groups[rows])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.bfloat16) for name in TABLES), ("int4, groups of 32", torch.float16)],
    ids=str,
)
def test_rows_come_from_the_tiles_of_the_head(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    weight, x = TABLES[name](N, K, dtype), torch.randn(3, K).to(dtype)
    program = export(Tied(weight), (NUMBERS, x)).run_decompositions({})
    ours = run_passes(program)
    if name in WITHOUT_TILES:
        assert ours == []
        return
    assert ours == ["aoti_plugins.rows_of_tiles.default", "aoti_plugins.fused_linear.default"]
    placed = {one.name for one in program.graph.nodes if one.op == "placeholder" and one.users}
    assert len(placed) == len({one for one in placed if "_bits_" in one}) + 2  # two inputs
    plain, values = Plain(program), values_of(weight)
    rows, products = plain.run(NUMBERS, x)
    torch.testing.assert_close(rows.double(), values[NUMBERS], rtol=2**-8, atol=1e-6)
    torch.testing.assert_close(products.double(), x.double() @ values.t(), rtol=0.02, atol=0.1)
    assert plain.largest == NUMBERS.numel() * K


@pytest.mark.parametrize("name", ["int4, groups of 128, zeros", "int8, rows", "int4", "q4_k"])
def test_equal_weights_are_one(name: str) -> None:
    torch.manual_seed(2)
    weight, numbers = TABLES[name](N, K, torch.bfloat16), torch.tensor([3, 1])
    inputs = numbers, torch.randn(3, K).bfloat16()
    for head in (copy.deepcopy(weight), TABLES[name](N, K, torch.bfloat16)):
        model = Apart(weight, head)
        program = export(model, inputs).run_decompositions({})
        equal_weights(program)
        is_one = torch.equal(values_of(weight), values_of(head))
        assert ("aoti_plugins.rows_of_tiles.default" in run_passes(program)) == is_one
        for found, expected in zip(Plain(program).run(*inputs), model(*inputs), strict=True):
            torch.testing.assert_close(found, expected, rtol=0.02, atol=0.1)


@pytest.mark.parametrize("number", [N, -1])
def test_rows_out_of_range(number: int) -> None:
    weight, x = TABLES["int4"](N, K, torch.bfloat16), torch.randn(3, K).bfloat16()
    program = export(Tied(weight), (NUMBERS, x)).run_decompositions({})
    run_passes(program)
    with pytest.raises(IndexError, match="out of bounds"):
        Plain(program).run(torch.full_like(NUMBERS, number), x)


def test_a_head_of_another_dtype_has_no_tiles() -> None:
    weight, x = TABLES["int4, groups of 32"](N, K, torch.float32), torch.randn(3, K)
    program = export(Tied(weight), (NUMBERS, x)).run_decompositions({})
    assert run_passes(program) == ["aoti_plugins.packed_weight.default"]
