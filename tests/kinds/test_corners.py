"""What random modules found: rare in models, and wrong or refused before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import LoweringError
from aoti_plugins.runtime import Program

PLACES = torch.tensor([1, 2, 0])


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.index_copy(0, PLACES, y[:3]),
        lambda y: y.index_put((PLACES,), y[:3].flip(0)),
        lambda y: y.index_copy(0, PLACES, y.narrow(0, 1, 3) * 2),
        lambda y: y.index_put((y[:3, 0].long().abs() % 2,), y[1:4, 0, None]),
        lambda y: y.slice_scatter(y[:-1], 0, 1),
        lambda y: y.sum(0, True).index_add(0, PLACES[:2] * 0, y.sum(0, True)[PLACES[:2] * 0]),
    ],
)
def test_values_are_read_before_they_are_overwritten(
    check: Callable[..., None], write: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    check(lambda x: write(x * 2), torch.randn(5, 3))


@pytest.mark.parametrize(
    "write",
    [
        lambda y, z: y.index_add(1, PLACES, z),
        lambda y, z: y.index_copy(1, PLACES, z),
        lambda y, z: y.index_put((PLACES,), z.t(), accumulate=True),
        lambda y, z: y.t().index_add(0, PLACES, z.t()),
    ],
)
def test_elements_that_share_memory_are_written_one_by_one(
    check: Callable[..., None], write: Callable[..., torch.Tensor]
) -> None:
    check(lambda x, z: write((x + 1).expand(3, 3), z), torch.randn(3), torch.randn(3, 3))
    check(lambda x, z: write((x + 1).unfold(0, 3, 1), z), torch.randn(5), torch.randn(3, 3))


def test_state_that_is_written_from_itself() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.arange(6.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.rows.copy_(self.rows.index_copy(0, PLACES, self.rows[:3]))
            self.rows.index_copy_(0, PLACES, self.rows[2:5] + x)
            return self.rows * 1

    expected = Model()
    with Program(lower(Model(), (torch.ones(3),)).buffer) as program:
        for _ in range(3):
            (found,) = program(torch.ones(3))
            torch.testing.assert_close(found, expected(torch.ones(3)))


def test_places_as_truth_values(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = torch.arange(-17, 23, device=x.device)
        rows = places.view(5, 8).to(torch.bool)
        return places.to(torch.bool) & x, rows.t() | x.view(8, 5), rows.logical_not()

    check(model, torch.ones(40, dtype=torch.bool))


@pytest.mark.parametrize("order", ["sort", "argsort"])
def test_rows_that_are_one_row_are_sorted(check: Callable[..., None], order: str) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = (x * 2).expand(4, 5)
        places = rows.sort(-1)[1] if order == "sort" else rows.argsort(-1, descending=True)
        return rows.gather(-1, places), places.gather(-1, places)

    check(model, torch.randn(5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("running", [torch.cummax, torch.cummin])
def test_running_extremes_of_what_something_else_reads(
    check: Callable[..., None], dtype: torch.dtype, running: Callable[..., tuple[torch.Tensor, ...]]
) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = (x @ x.transpose(-2, -1)) * 0.37 + torch.full((5, 5), -9.0).triu(1).to(x.dtype)
        return (*running(scores, -1), scores.softmax(-1))

    check(model, torch.randn(2, 5, 7).to(dtype), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("norm", [nn.GroupNorm(8, 8), nn.LayerNorm([1])])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nothing_is_left_of_one_element(norm: nn.Module, dtype: torch.dtype) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm.to(dtype)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            likeness = torch.cosine_similarity(x, x + 0.1, dim=-1)
            return self.norm(likeness), likeness.clone()

    x = torch.randn(2, 8, 1, 3).to(dtype)
    x[0, 0] = torch.nan
    with Program(lower(Model().eval(), (x,)).buffer) as program:
        found, _ = program(x)
    torch.testing.assert_close(found, Model().eval()(x)[0], rtol=0, atol=1e-4, equal_nan=True)
    assert found[1].abs().max() == 0


def test_any_of_bytes_is_a_byte(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = torch.any(x, dim=None, keepdim=True), torch.all(x, dim=None, keepdim=True)
        return x.any(-1), x.any(), x.any(0, keepdim=True), x.all(0), x.any(dim=(0, 1)), *whole

    check(model, torch.tensor([[0, 2, 0], [0, 0, 0]], dtype=torch.uint8))


def test_any_of_places(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = torch.arange(9)
        return (
            places.all(),
            places.any(),
            (places + 1).all(0),
            x.all(),
            x.any(-1),
            x.all(dim=(0, 1)),
        )

    check(model, torch.tensor([[0, -2, 0], [3, 1, 1]]))


def test_softmax_of_vectors_whose_elements_lie_apart(check: Callable[..., None]) -> None:
    """Rows were computed together, in a buffer of one."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = x.unsqueeze(0).unflatten(-1, (3, 1)).permute(2, 0, 1, 3).unbind()
        q, k, v = (y.contiguous()[:, None] for y in (q, k, v))
        return q, torch.nn.functional.scaled_dot_product_attention(q, k, v)

    check(model, torch.randn(16, 3))
    attention = nn.MultiheadAttention(1, 1, batch_first=True).eval()
    check(lambda x: attention(x, x, x, need_weights=False)[0].clone(), torch.randn(1, 16, 1))


def test_the_running_sum_of_a_known_number(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        place = x.argmin().clone()
        place.fill_(3)
        return place.cumsum(-1), place.cumsum(0, dtype=torch.float32)

    check(model, torch.randn(3))


def test_a_transposed_input_of_16_bits_is_scanned(check: Callable[..., None]) -> None:
    check(lambda x: x.logcumsumexp(0), torch.randn(3, 8).bfloat16().t(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(("size", "step"), [(1, 2), (1, 1), (2, 2), (3, 4), (5, 5)])
def test_writes_to_windows(check: Callable[..., None], size: int, step: int) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 3
        windows = y.unfold(1, size, step)
        windows.div_(2)
        windows[0].add_(1)
        y.mul_(2)
        return y, windows + 0, x.unfold(0, 2, 1) + 0

    check(model, torch.randn(3, 17, 2))


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.unfold(0, 2, 4).unbind(0)[0].mul_(2),
        lambda y: y.unfold(1, 2, 3).chunk(2, 0)[1].mul_(2),
        lambda y: torch.mul(y.unfold(0, 2, 4), 2, out=y.unfold(0, 2, 4)),
        lambda y: torch._foreach_mul_([y.unfold(0, 2, 4)], 2.0),
    ],
    ids=["one of several", "a part", "out", "a list"],
)
def test_writes_to_windows_by_other_ways(
    check: Callable[..., None], write: Callable[[torch.Tensor], object]
) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        write(y)
        return y

    check(model, torch.randn(12, 9))


def test_windows_of_a_dynamic_size() -> None:
    class Model(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size = size

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 3
            y.unfold(0, self.size, 3).mul_(2)
            return y

    dynamic = ({0: torch.export.Dim("n", min=5, max=50)},)
    with Program(lower(Model(1), (torch.randn(9),), dynamic_shapes=dynamic).buffer) as program:
        for size in (5, 7, 9, 50):
            x = torch.randn(size)
            torch.testing.assert_close(program(x)[0], Model(1)(x))
    with pytest.raises(LoweringError, match="a dynamic size"):
        lower(Model(2), (torch.randn(9),), dynamic_shapes=dynamic)


def test_windows_that_no_other_views_are() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        y.unfold(0, 5, 6).div_(2)
        return y

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return model(x)

    with pytest.raises(LoweringError, match=r"windows of unfold\(.* padded to 18 elements"):
        lower(Model(), (torch.randn(17),))


@pytest.mark.parametrize("find", [torch.argmin, torch.argmax])
def test_places_are_counted_row_by_row(
    check: Callable[..., None], find: Callable[..., torch.Tensor]
) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return find(x), find(x * 2), find(y), find(y.transpose(1, 3)), find(x, keepdim=True)

    torch.manual_seed(0)
    image = torch.randint(-999, 999, (2, 4, 5, 6)).contiguous(memory_format=torch.channels_last)
    check(model, torch.randn(5, 3).t(), image)


def test_norms_over_dims_of_one(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.norm(dim=-1), torch.linalg.vector_norm(x, 3, (-1, 0)), x[:, :1].norm(dim=-2)

    check(model, torch.randn(1, 3, 1))


def test_one_number_is_flipped(check: Callable[..., None]) -> None:
    check(lambda x: (x.flip(0) + 1, (x * 2).flip(-1)), torch.randn(()))


def test_a_state_in_another_order_than_what_is_added_to_it() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3, 17, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean.mul_(0.5).add_(x, alpha=0.25)
            return x - self.mean

    x = torch.randn(6, 17, 3).transpose(0, 2)
    expected = Model()
    with Program(lower(Model(), (x,)).buffer) as program:
        for _ in range(3):
            torch.testing.assert_close(program(x)[0], expected(x))


def test_masked_reads_by_index(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = torch.take_along_dim(x, x.long() % 4, -1)
        y = y.clone()
        y[-2:] = y[-2:] * 2
        return y

    check(model, torch.arange(12, dtype=torch.int32).view(3, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_largest_element_equals_the_maximum(
    check: Callable[..., None], dtype: torch.dtype
) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.hypot(x, x * 2)  # what is rounded once is rounded as in eager
        z = (x * 2).sin()
        most = y.amax(-1, keepdim=True)
        near = torch.isclose(y, most, rtol=0, atol=0), y.float() >= most.float()
        largest, _ = z.topk(3, -1)
        direct = y == y.amax(), y > y.amin(-1, keepdim=True), z >= z.max(0).values
        return (*direct, *near, (y - most) == 0, z < largest[:, 2:], z.sum(), y != z)

    torch.manual_seed(0)
    check(model, torch.randn(6, 40).to(dtype), rtol=2e-2, atol=2e-2)


def test_what_is_a_copy_is_decided_by_the_layout_in_eager(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept = x.float().clone()
        kept.flatten().add_(1)
        other = y.clone()
        other.reshape(-1).add_(1)
        other.contiguous().mul_(5)
        return kept, other

    check(model, torch.arange(70).view(5, 2, 7).transpose(1, 2), torch.randn(3, 8).t())


def test_a_row_of_truths_is_written_into_another(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = (x == x)[::1, -3:].clone()
        z[::1, -2:] = y.topk(2, -1)[1]
        return z

    check(model, (torch.arange(8).view(2, 4, 1) % 2 == 0).transpose(0, 2), torch.randn(2, 3))


def test_rotated_vectors_are_padded_by_repeating(check: Callable[..., None]) -> None:
    """PyTorch asked for the range of a loop's variable, and did not know it."""
    layer = nn.Conv1d(4, 1, 1, padding=1, padding_mode="replicate")
    table = nn.Embedding(11, 8)

    def model(x: torch.Tensor) -> torch.Tensor:
        y = table(x)
        angles = torch.arange(4.0)[:, None] * (1.0 / 100.0 ** (torch.arange(4.0) / 4))
        angles = torch.cat([angles, angles], -1)
        turned = torch.cat([-y[..., 4:], y[..., :4]], -1)
        return layer(y * angles.cos() + turned * angles.sin())

    check(model, torch.randint(0, 11, (5, 4)))


def test_a_cache_of_a_dynamic_number_of_rows() -> None:
    """A program that writes, with products and copies of dynamic sizes, as language models are."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Linear(6, 6, bias=False)
            self.register_buffer("cache", torch.zeros(8, 2, 3))

        def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            self.cache.index_copy_(0, places, self.rows(x)[0].view(-1, 2, 3))
            return self.rows(self.cache[places].transpose(1, 2).contiguous().flatten(1)[None])

    torch.manual_seed(0)
    model = Model().eval()
    n = torch.export.Dim("n", max=8)
    inputs = torch.randn(1, 3, 6), torch.tensor([4, 0, 2])
    program = lower(model, inputs, dynamic_shapes=({1: n}, {0: n}))
    with Program(program.buffer) as lowered:
        for count in (3, 1, 8):
            x, places = torch.randn(1, count, 6), torch.randperm(8)[:count]
            torch.testing.assert_close(lowered(x, places)[0], model(x, places))


def test_the_error_function_of_small_numbers() -> None:
    """Of PyTorch's vectors nothing is left of 1e-30; of eager's of 16 bits neither."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x.erf(), (x * 2).erf(), y.erf(), x.double().erf(), x.erf() + 1

    numbers = torch.tensor([[1e-30, 1e-6, 1e-3, 0.1, 0.49, 0.51, 1.0, 2.5]])
    x = torch.cat([numbers, -numbers, numbers * 0]).repeat(1, 2)
    y = x.bfloat16()
    with Program(lower(Model(), (x, y)).buffer) as program:
        *found, plus_one = program(x, y)
    *expected, expected_plus_one = Model()(x.double(), y.double())
    for one, other, within in zip(found, expected, (1e-6, 1e-6, 4e-3, 1e-14), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=within, atol=0)
    torch.testing.assert_close(plus_one.double(), expected_plus_one, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gelu_that_is_written_out_stays_fast(dtype: torch.dtype, tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = (x * 2**-0.5).erf()
            return 0.5 * x * (1.0 + y), x * (y + 1)

    partitioner = CpuPartitioner(keep_sources=str(tmp_path))
    lower(Model(), (torch.randn(3, 40).to(dtype),), partitioner=partitioner)
    (kernels,) = tmp_path.glob("*/kernels.cpp")
    assert "erf()" in kernels.read_text()
    assert "blendv" not in kernels.read_text()


@pytest.mark.parametrize("rows", [12, 500])
def test_sums_that_are_not_vectorized(rows: int) -> None:
    """What is repeated is read one by one; a sum is as near as float32 allows."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.repeat_interleave(2, 3).repeat_interleave(2, 2).sum((2, 3))

    torch.manual_seed(0)
    x = torch.rand(1, 8, rows, 17) + 1
    with Program(lower(Model(), (x,)).buffer) as program:
        (found,) = program(x)
    torch.testing.assert_close(found.double(), Model()(x.double()), rtol=6e-8, atol=0)


@pytest.mark.parametrize("sizes", [(3, 5000), (7, 9001), (9001,), (2, 4100, 5)])
def test_sums_of_many(check: Callable[..., None], sizes: tuple[int, ...]) -> None:
    """Vectors with and without a rest, along and across rows, on several threads."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(0), x.sum(-1), x.sum(), x.transpose(0, -1).sum(0), (x * 2).mean(-1)

    torch.manual_seed(0)
    check(model, torch.rand(sizes), rtol=2e-6, atol=0)


def test_a_whole_number_scattered_into_floats(check: Callable[..., None]) -> None:
    def model(index: torch.Tensor) -> torch.Tensor:
        return torch.linspace(-1, 1, 1, device=index.device).scatter(-1, index, 1)

    check(model, torch.tensor([0]))


def test_no_images_are_enlarged(check: Callable[..., None]) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        enlarge = nn.functional.interpolate
        return enlarge(x, size=(3, 5)), enlarge(x, scale_factor=(2.0, 1.5)) + 1

    check(model, torch.ones(0, 3, 2, 4))
