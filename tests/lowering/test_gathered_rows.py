"""Embeddings of few bits: the rows asked for become floats, and no others."""

from __future__ import annotations

from typing import Any

import executorch.exir.passes._quant_patterns_and_replacements  # noqa: F401  it defines ops
import pytest
import torch
from exportable_weights import Rows, Tied
from small_tables import TABLES, Plain, values_of
from support import lower, weights_nbytes
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from aoti_plugins.errors import ProgramError
from aoti_plugins.lowering.decompositions import of_libraries
from aoti_plugins.lowering.passes.constants_as_bits import constants_as_bits
from aoti_plugins.lowering.passes.gathered_rows import gathered_rows
from aoti_plugins.lowering.passes.packed_weights import packed_weights
from aoti_plugins.lowering.small_weights import packed
from aoti_plugins.lowering.small_weights.weight import NO_ZERO
from aoti_plugins.runtime import Program

N, K = 64, 512
NUMBERS = (
    torch.tensor(5),
    torch.tensor([63, 0, 5]),
    torch.tensor([[1, 1], [40, 7], [0, 63]], dtype=torch.int32),
    torch.tensor([[[8], [9]]]),
)


def run_passes(program: ExportedProgram) -> None:
    constants_as_bits(program)
    gathered_rows(program)
    packed_weights(program)


@pytest.mark.parametrize("group_size", [2, 32, 96])
def test_codes_of_a_group_share_bytes(group_size: int) -> None:
    codes = torch.randint(0, 16, (6, 192), dtype=torch.uint8)
    found = packed.pack(codes, 4, group_size)
    assert found.shape == (6, 96)
    scale = torch.ones(6, 192 // group_size)
    numbers = packed.values(found, scale, None, 4, NO_ZERO, torch.float32)
    assert torch.equal(numbers, codes.float() - 8)


class ManyRows(nn.Module):
    """Rows by numbers in several tensors."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.rows = Rows(weight)

    def forward(self, *numbers: Tensor) -> list[Tensor]:
        return [self.rows(one) for one in numbers]


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_taken_first(name: str) -> None:
    torch.manual_seed(1)
    weight = TABLES[name](N, K, torch.bfloat16)
    program = export(ManyRows(weight), NUMBERS).run_decompositions({})
    run_passes(program)
    plain = Plain(program)
    for numbers, found in zip(NUMBERS, plain.run(*NUMBERS), strict=True):
        assert found.dtype == torch.bfloat16
        expected = values_of(weight)[numbers.long()]
        torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=1e-9)
    assert plain.largest == max(one.numel() for one in NUMBERS) * K


class OtherWays(nn.Module):
    """Rows by other ops than an embedding, some of them counted from the end."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        weight = self.weight.dequantize()  # type: ignore[operator]
        return torch.index_select(weight, 0, numbers), weight[numbers - N]


@pytest.mark.parametrize("name", ["int4, groups of 128, zeros", "int4", "q6_k", "nvfp4"])
def test_rows_by_other_ops(name: str) -> None:
    torch.manual_seed(2)
    weight = TABLES[name](N, K, torch.bfloat16)
    numbers = torch.tensor([63, 0, 5])
    program = export(OtherWays(weight), (numbers,)).run_decompositions({})
    run_passes(program)
    plain = Plain(program)
    expected = values_of(weight)[numbers]
    for found in plain.run(numbers):
        torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=1e-9)
    assert plain.largest == 3 * K


def test_what_takes_no_rows_stays() -> None:
    weight = TABLES["int4"](N, K, torch.bfloat16)

    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(weight, requires_grad=False)

        def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
            values = self.weight.dequantize()  # type: ignore[operator]
            return torch.index_select(values, 1, numbers), values[values[:, 0] > 9]

    program = export(Columns(), (torch.tensor([3, 1]),)).run_decompositions({})
    before = [str(node.target) for node in program.graph.nodes]
    gathered_rows(program)
    assert [str(node.target) for node in program.graph.nodes] == before


class Tables(nn.Module):
    """Rows of some tables, and products with them."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.tables = nn.ModuleList(Tied(TABLES[name](N, K, torch.bfloat16)) for name in names)

    def forward(self, numbers: Tensor, x: Tensor) -> list[Tensor]:
        return [one for table in self.tables for one in table(numbers, x)]


def test_programs_take_rows_of_what_their_products_read() -> None:
    """Any number of rows, none out of range; the constants are there once."""
    model = Tables("int4, groups of 128, zeros", "int8, rows", "int4", "q6_k").eval()
    x, rows = torch.randn(2, K).bfloat16(), Dim("rows", max=16)
    lowered = lower(model, (torch.arange(3), x), dynamic_shapes=({0: rows}, None))
    needed = N * K * (4 + 32 / 128 + 8 + 16 / K + 4 + 32 / 32 + 210 * 8 / 256) / 8
    assert weights_nbytes(lowered.buffer) <= 1.01 * needed
    with Program(bytes(lowered.buffer)) as program:
        for numbers in (torch.tensor([7, 63, 0, 7, 9]), torch.tensor([63]), torch.arange(0)):
            found = program(numbers, x)
            for one, expected in zip(found, model(numbers, x), strict=True):
                torch.testing.assert_close(one, expected, rtol=0.02, atol=0.02)
            for one, table in zip(found[::2], model.tables, strict=True):
                expected = values_of(table.weight)[numbers]
                torch.testing.assert_close(one.double(), expected, rtol=2**-8, atol=1e-9)
        for wrong in (N, -1):
            with pytest.raises(ProgramError):
                program(torch.tensor([wrong]), x)


@pytest.mark.parametrize("overload", ["default", "dtype"])
@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("groups", [None, 1, 4])
@pytest.mark.parametrize("name", ["embedding_2bit", "embedding_4bit", "embedding_byte"])
def test_embeddings_of_executorch(
    name: str, groups: int | None, scale_dtype: torch.dtype, overload: str
) -> None:
    limits = {"embedding_2bit": (-2, 1), "embedding_4bit": (-8, 7), "embedding_byte": (-128, 127)}
    sizes = (N,) if groups is None else (N, groups)
    weight = torch.randint(0, 256, (N, 32), dtype=torch.uint8)
    weight = weight.view(torch.int8) if name == "embedding_byte" else weight
    scales, zeros = torch.rand(sizes).to(scale_dtype), torch.randint(-2, 2, sizes).to(scale_dtype)
    op = getattr(getattr(torch.ops.quantized_decomposed, name), overload)
    options = {"dtype": torch.float16} if overload == "dtype" else {}
    for numbers in NUMBERS:
        for zero in (zeros, None):
            given = (weight, scales, zero, *limits[name], numbers)
            found = of_libraries()[op](*given, **options)
            torch.testing.assert_close(found, op(*given, **options), rtol=0, atol=0)


class Packed(nn.Module):
    """ExecuTorch's embedding of 4 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(0, 256, (N, K // 2), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(N, K // 32))

    def forward(self, numbers: Tensor) -> Tensor:
        given = (self.weight, self.scales, None, -8, 7, numbers)
        return torch.ops.quantized_decomposed.embedding_4bit.dtype(*given, dtype=torch.float32)


def test_a_program_with_an_embedding_of_executorch() -> None:
    model = Packed().eval()
    lowered = lower(model, (NUMBERS[1],))
    assert weights_nbytes(lowered.buffer) == N * K // 2 + N * K // 32 * 4
    with Program(bytes(lowered.buffer)) as program:
        (found,) = program(NUMBERS[1])
    torch.testing.assert_close(found, model(NUMBERS[1]), rtol=0, atol=0)
