"""Dtypes, sizes and layouts of what goes in and out, and inputs that are no tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from executorch.exir import EdgeCompileConfig
from torch import nn

from aoti_plugins.errors import LoweringError
from aoti_plugins.runtime import Program

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)

# ExecuTorch's check of edge programs knows no other dtypes than those above and bool.
OTHER_DTYPES = EdgeCompileConfig(_check_ir_validity=False)


# Inductor's word on why it does not vectorize the casts between the two.
@pytest.mark.filterwarnings("ignore:bf16 and fp16 are mixed")
def test_dtypes(check: Callable[..., None]) -> None:
    def compute(*tensors: torch.Tensor) -> list[torch.Tensor]:
        *numbers, truth = tensors
        found = [truth & ~truth.flip(0), truth.any(1), truth.sum(), torch.where(truth, 1.5, -2.0)]
        for x in numbers:
            found += [x * 2 + x, x.amax(0), x @ x.T, x > 1]
        return found + [x.to(y.dtype) for x, y in itertools.pairwise(tensors)]

    torch.manual_seed(0)
    numbers = [(torch.rand(3, 4) * 6).to(dtype) for dtype in (*FLOATS, *INTEGERS)]
    check(compute, *numbers, torch.rand(3, 4) > 0.5, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_sums_by_index_into_one_row(dtype: torch.dtype, check: Callable[..., None]) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        index = torch.zeros(37, dtype=torch.int64)
        return [x.index_add(0, index, y), z.index_add(1, index, z.expand(3, 37))]

    torch.manual_seed(0)
    given = [torch.randint(-4, 5, size).to(dtype) for size in ((1,), (37,), (3, 1))]
    check(compute, *given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_by_index_in_another_layout(dtype: torch.dtype, check: Callable[..., None]) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.index_add(-2, index, y.sin()) * 2

    torch.manual_seed(0)
    x = torch.randn(5, 2, 4, 7, dtype=dtype).transpose(0, 3)
    check(compute, x, torch.randn(7, 2, 1, 5, dtype=dtype), torch.tensor([1]))


def test_copies_of_layouts_without_a_memory_format(check: Callable[..., None]) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        found = [x.clone(), y.half(), y.sin().to(torch.float64), x.float(), x.exp().clone()]
        found += [x.to("cpu", torch.float16), y.to(x.half()), x.type_as(y.double())]
        found += [y.to(torch.float64, memory_format=torch.contiguous_format)]
        return [*found, y.to(torch.float64, copy=True), x.to(torch.float16).clone()]

    torch.manual_seed(0)
    check(
        compute, torch.randn(2, 3, 4).transpose(1, 2), torch.randn(2, 3, 4, 5).permute(2, 0, 3, 1)
    )


def test_two_dtypes_in_layouts_without_a_memory_format(check: Callable[..., None]) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        found = [x + 0.5, x * y, y - x, x / 2, x / x, torch.minimum(x, y), torch.add(x, y, alpha=2)]
        found += [torch.div(x, y + 20, rounding_mode=mode) for mode in (None, "floor", "trunc")]
        return [*found, z * torch.arange(3.0), z.mT + 1.5, y.to(torch.float64) + y, x > y]

    torch.manual_seed(0)
    x = torch.randint(-9, 10, (2, 4, 3), dtype=torch.int32).transpose(1, 2)
    y = torch.randn(2, 4, 3).transpose(1, 2)
    z = torch.randn(4, 1, 3, 2).to(torch.bfloat16).permute(3, 1, 0, 2)
    check(compute, x, y, z, rtol=1e-2, atol=1e-2)


def test_dtypes_that_edge_programs_have_unchecked(check: Callable[..., None]) -> None:
    def compute(*tensors: torch.Tensor) -> list[torch.Tensor]:
        small, large, e4, e5, c64, c128 = tensors
        found = [x.to(torch.int64) * 2 for x in (small, large)]
        found += [(x.float() + 1).to(x.dtype) for x in (small, large)]
        for x in (e4, e5):
            found += [x.float() * 2, (x.float() + 1).to(x.dtype), x.view(3, 1)]
        return [*found, torch.view_as_real(c64) * 2, torch.view_as_real(c128).sum(0)]

    torch.manual_seed(0)
    unsigned = [torch.tensor([1, 2, 3]).to(dtype) for dtype in (torch.uint16, torch.uint32)]
    tiny = [torch.randn(3).to(dtype) for dtype in (torch.float8_e4m3fn, torch.float8_e5m2)]
    complexes = [torch.randn(3, dtype=dtype) for dtype in (torch.complex64, torch.complex128)]
    check(compute, *unsigned, *tiny, *complexes, edge=OTHER_DTYPES)


def test_moves_of_complex_numbers(check: Callable[..., None]) -> None:
    """As rotary embeddings make them; the arithmetic around them is not ExecuTorch's either."""

    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        pairs = torch.view_as_complex(x) * 2
        found = [
            pairs.unsqueeze(1) + 1j,
            pairs[1] * pairs[2],
            pairs[:, 1:3] * 1j,
            pairs.permute(1, 0) + 1,
            pairs[None].expand(2, 3, 4) * pairs,
            pairs.reshape(2, 6) - 1j,
            pairs[None].squeeze(0) * 3,
            *pairs.split([1, 3], 1),
            *pairs.unbind(0),
            torch.cat([pairs, pairs + 1]),
            pairs.flip(1) * 2,
            pairs.conj() * pairs,
            pairs[torch.tensor([2, 0])] + 1,
            pairs.transpose(0, 1).contiguous() * 2,
            torch.complex(y, y + 1) * 2,
        ]
        return [torch.view_as_real(one.contiguous() + 0j) for one in found]

    torch.manual_seed(0)
    check(compute, torch.randn(3, 4, 2), torch.randn(3, 4), edge=OTHER_DTYPES)


def test_complex_arithmetic_is_lowered() -> None:
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner

    class Product(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x).abs() * 2

    x = torch.randn(8)
    program = to_edge_transform_and_lower(
        torch.export.export(Product(), (x,)),
        partitioner=[CpuPartitioner()],
        compile_config=OTHER_DTYPES,
    ).to_executorch()
    assert not program.executorch_program.execution_plan[0].operators
    with Program(bytes(program.buffer)) as runnable:
        torch.testing.assert_close(runnable(x)[0], Product()(x))


def test_no_dimensions_and_no_elements(check: Callable[..., None]) -> None:
    def compute(*tensors: torch.Tensor) -> list[torch.Tensor]:
        a, n, none, some, nothing, wide = tensors
        return [
            *(a + 1, a.reshape(1), a.expand(3), a > 1, a.to(torch.int64), torch.stack([a, a * 2])),
            *(n // 2, n % 3, -n, some.mean(), some[0] * n),
            *(none * 2, none.sum(), none.sum(0), none @ some.T, torch.cat([none, some])),
            *(none.T, nothing + 1, nothing.amax(0), wide @ none, none.reshape(4, 0), some[:0]),
        ]

    torch.manual_seed(0)
    check(
        compute,
        torch.tensor(1.5),
        torch.tensor(1),
        torch.randn(0, 4),
        torch.randn(2, 4),
        torch.randn(0, 3)[:, :0].reshape(3, 0).T.contiguous().reshape(3, 0),
        torch.randn(3, 0),
    )


def test_layouts_of_inputs(lower_whole: Callable[..., bytes]) -> None:
    """Example inputs with any layout; when it runs, those and others."""

    def compute(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [y for x in tensors for y in (x * 2, x.flatten(), x.sum(0), x.contiguous() + 1)]

    torch.manual_seed(0)
    examples = (
        torch.randn(4, 3).T,
        torch.randn(4, 6)[:, ::2],
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(1, 2, 3, 4, 5).to(memory_format=torch.channels_last_3d),
        torch.randn(3, 4, 5)[1:, :, 1].T,
    )
    others = [
        tuple(x.contiguous() for x in examples),
        tuple(x.flip(0).mT for x in (y.mT.contiguous() for y in examples)),
        tuple(torch.randn(*x.shape, 3)[..., 1] for x in examples),
    ]
    with Program(lower_whole(compute, examples)) as program:
        for inputs in (examples, *others):
            for found, expected in zip(program(*inputs), compute(*inputs), strict=True):
                torch.testing.assert_close(found, expected, check_stride=False)


def test_layouts_of_outputs(check: Callable[..., None]) -> None:
    class Layouts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            y = self.conv(x)
            last = y.to(memory_format=torch.channels_last)
            return [y, last, last.contiguous(), (x * 2).mT, x[..., ::2], x[:1].expand(3, 3, 5, 6)]

    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 6)
    check(Layouts().eval(), x.to(memory_format=torch.channels_last))


def test_medians_without_elements(check: Callable[..., None]) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        found = [*x.median(1), *x.nanmedian(-1), *y.median(1, keepdim=True)]
        return [*found, x.median(), x.nanmedian()]

    check(compute, torch.zeros(0, 1, 6), torch.zeros(0, 3, dtype=torch.int64))


def test_one_value_at_indices(check: Callable[..., None]) -> None:
    """In PyTorch 2.11's own graphs of transposed tensors there is a write, which it refuses."""

    def compute(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> list[torch.Tensor]:
        found = [x.index_fill(0, index, 2), x.mT.index_fill(-1, index, value)]
        numbers = [(x * 9).long().index_fill(-2, index[0], 2.7), x.sum().index_fill(0, index[2], 1)]
        return [*found, *numbers, (x > 0).index_fill(1, index, True)]

    torch.manual_seed(0)
    check(compute, torch.randn(6, 3).mT.exp(), torch.tensor([2, -1, 0]), torch.tensor(3.0))


def test_bags_without_indices(check: Callable[..., None]) -> None:
    for mode in ("sum", "mean", "max"):
        table = torch.nn.EmbeddingBag(3, 4, mode=mode).eval()
        check(table, torch.zeros(0, 2, dtype=torch.int64))
        check(table, torch.zeros(0, dtype=torch.int64), torch.tensor([0, 0]))


def test_sums_of_products_with_a_factor(check: Callable[..., None]) -> None:
    """PyTorch's compiler fuses them, and loses the factor."""

    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.add(x @ y, y, alpha=2), torch.add(y, x @ y, alpha=3)]
        found += [torch.add(x @ y, y.sin() @ x, alpha=2), torch.sub(x @ y, y, alpha=2)]
        return [*found, torch.add(torch.addmm(y, x, y, alpha=2), x, alpha=0.5)]

    torch.manual_seed(0)
    check(compute, torch.randn(4, 4), torch.randn(4, 4))


def test_writes_to_copies_of_what_was_joined(check: Callable[..., None]) -> None:
    """What is joined may lie inside the result, where a write would change it."""

    def compute(x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for y in (x.sin(), x.softmax(0), x.cos().mT):
            found += [torch.cat([x, y], -1), y.index_add(0, index, x)]
        y = x.tanh()
        changed = torch.cat([y.clone(), x])
        written = y.clone()
        written[1:3] = x[:2]
        return [*found, changed, written, torch.stack([y, x]), y.index_put((index,), x)]

    torch.manual_seed(0)
    check(compute, torch.randn(4, 4), torch.tensor([3, 1, 1, 0]))


def test_repeated_elements_are_refused(lower_whole: Callable[..., bytes]) -> None:
    with pytest.raises(LoweringError, match=r"strides .0, 1., .* repeats its elements; export"):
        lower_whole(lambda x: x * 2, (torch.randn(1, 3).expand(4, 3),))


def test_a_result_that_repeats_its_elements_is_refused(lower_whole: Callable[..., bytes]) -> None:
    grid = (torch.randn(3), torch.randn(4))
    with pytest.raises(LoweringError, match=r"strides .1, 0., .* its elements; .* return a contig"):
        lower_whole(lambda x, y: torch.meshgrid(x + 1, y + 1, indexing="ij"), grid)
    lower_whole(lambda x, y: torch.meshgrid(x + 1, y + 1, indexing="ij")[0].contiguous(), grid)


class Scalars(nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        n: int,
        f: float,
        flag: bool,
        other: torch.Tensor | None = None,
        last: torch.Tensor | None = None,
    ) -> tuple[object, ...]:
        y = x * n + f if flag else x - 1
        y = y if other is None else y + other
        return y, n, f, flag, None, y if last is None else y * last


def test_scalar_and_optional_arguments(check: Callable[..., None]) -> None:
    x = torch.randn(2, 3)
    check(Scalars(), x, 3, 1.5, True, None, torch.full((2, 3), 2.0))


def test_nested_arguments(check: Callable[..., None]) -> None:
    def compute(x: torch.Tensor, more: dict[str, object]) -> dict[str, object]:
        p, (q, n) = more["p"], more["q"]
        return {"a": x + p, "b": (p * 2, [q[0] * n])}

    check(compute, torch.randn(2), {"p": torch.randn(2), "q": (torch.randn(3), 2)})


def test_no_tensor_input(check: Callable[..., None]) -> None:
    class Nothing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.register_buffer("rows", torch.randn(4, 3))

        def forward(self) -> tuple[torch.Tensor, ...]:
            return self.linear(self.rows), self.rows.amax(0), torch.ones(2), torch.arange(3)

    torch.manual_seed(0)
    check(Nothing().eval())


def test_numbers_only(check: Callable[..., None]) -> None:
    check(lambda n: torch.full((2,), 1.5) + torch.arange(2), 3)


class Lstms(nn.Module):
    """Several layers, each with its last states."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(5, 4, batch_first=True)
        self.two_ways = nn.LSTM(5, 4, num_layers=2, bidirectional=True)
        self.projected = nn.LSTM(5, 4, proj_size=3, bias=False)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Outputs, hidden states and cells of each."""
        found = []
        for layer in (self.first, self.two_ways, self.projected):
            outputs, states = layer(x)
            found += [outputs, *states]
        return found


@pytest.mark.filterwarnings("ignore:The tensor attributes", "ignore:LSTM with projections")
def test_last_states_of_lstms(check: Callable[..., None]) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        check(Lstms().eval(), torch.randn(2, 3, 5))
