"""The built-in decompositions give what PyTorch's own ops give, eagerly and lowered."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from decomposed import ATEN, FLOATS, check, in_float32, some
from hypothesis import given, settings
from hypothesis import strategies as st
from of_function import OfFunction
from support import lower, older_than
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from aoti_plugins import CpuPartitioner
from aoti_plugins.lowering import decompositions
from aoti_plugins.lowering.decompositions import (
    CUDA_DECOMPOSITIONS,
    DECOMPOSITIONS,
    ONLY_FOR,
    attention,
    data_sizes,
    windows,
)
from aoti_plugins.runtime import Program

NAN = math.nan


@pytest.fixture
def no_window_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pooling is decomposed even where Inductor would generate it."""
    for module in (decompositions.adaptive_pool, decompositions.avg_pool):
        monkeypatch.setattr(module, "INDUCTOR_WINDOW", 0)


@pytest.mark.usefixtures("no_window_is_generated")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("sizes", "outs"),
    [
        ((7, 8, 9), (3, 2, 4)),
        ((4, 6, 8), (2, 3, 8)),
        ((5, 1, 3), (1, 1, 1)),
        ((2, 3, 4), (5, 4, 4)),
    ],
)
def test_adaptive_pools_3d(
    sizes: tuple[int, ...], outs: tuple[int, ...], dtype: torch.dtype
) -> None:
    for lead in ((2, 3), (3,)):
        x = some(*lead, *sizes, dtype=dtype)
        check(ATEN._adaptive_avg_pool3d.default, x, outs)
        check(ATEN.adaptive_max_pool3d.default, x, outs)


@pytest.mark.usefixtures("no_window_is_generated")
@settings(max_examples=60)
@given(st.tuples(*[st.integers(1, 12)] * 2), st.tuples(*[st.integers(1, 7)] * 2))
def test_adaptive_pools_2d(sizes: tuple[int, int], outs: tuple[int, int]) -> None:
    x = some(2, *sizes)
    for op in (ATEN._adaptive_avg_pool2d.default, ATEN.adaptive_max_pool2d.default):
        if any(size % out for size, out in zip(sizes, outs, strict=True)):
            check(op, x, outs)
        else:
            assert CUDA_DECOMPOSITIONS[op](x, outs) is NotImplemented


def test_adaptive_maxima_of_nans_and_infinities() -> None:
    x = torch.tensor([NAN, 1, NAN, 0, -math.inf, -math.inf, 2, 2, 1]).view(1, 1, 1, 1, 9)
    for outs in ((1, 1, 1), (1, 1, 2), (1, 1, 4)):
        check(ATEN.adaptive_max_pool3d.default, x, outs)


@pytest.mark.usefixtures("no_window_is_generated")
@settings(max_examples=100)
@given(
    st.tuples(*[st.integers(4, 9)] * 3),
    st.tuples(*[st.integers(1, 4)] * 3),
    st.tuples(*[st.integers(1, 3)] * 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((None, 3)),
)
def test_average_pools(
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padded: bool,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> None:
    padding = [width // 2 if padded else 0 for width in kernel]
    how = (ceil_mode, count_include_pad, divisor)
    if kernel != stride:
        x = some(2, 2, *sizes)
        check(ATEN.avg_pool3d.default, x, kernel, stride, padding, *how)
    if kernel[1:] != stride[1:]:
        x = some(2, *sizes[1:])
        check(ATEN.avg_pool2d.default, x, kernel[1:], stride[1:], padding[1:], *how)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_average_pools_by_dtype(dtype: torch.dtype) -> None:
    x = some(1, 2, 9, 9, 9, dtype=dtype)
    found = decompositions.avg_pool.avg_pool3d(x, [4], [2])
    expected = ATEN.avg_pool3d.default(in_float32(x), [4], [2])  # it knows no 16-bit floats
    torch.testing.assert_close(found, expected.to(dtype))
    check(ATEN.avg_pool2d.default, some(1, 2, 9, 9, dtype=dtype), [6], [2], [3], True)


def test_what_inductor_generates_is_left_to_it() -> None:
    x = some(1, 2, 8, 8, 8)
    assert decompositions.avg_pool.avg_pool3d(x, [2, 3, 4], [1]) is NotImplemented
    assert decompositions.avg_pool.avg_pool3d(x, [4], []) is NotImplemented
    assert decompositions.avg_pool.avg_pool2d(x[0].long(), [6], [1]) is NotImplemented
    assert decompositions.adaptive_pool.adaptive_max_pool2d(x[0], [5, 5]) is NotImplemented
    assert windows.INDUCTOR_WINDOW == 25  # as in torch/_inductor/lowering.py


@pytest.mark.parametrize("table", [DECOMPOSITIONS, CUDA_DECOMPOSITIONS], ids=["sort", "select"])
@pytest.mark.parametrize("nans", [0.0, 0.2])
@pytest.mark.parametrize("dtype", FLOATS)
def test_medians(dtype: torch.dtype, nans: float, table: Any) -> None:
    order = torch.randperm(5 * 6 * 7, generator=torch.Generator().manual_seed(0))
    x = order.view(5, 6, 7).to(dtype)  # no two are equal, or else indices are free
    x = torch.where(torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < nans, NAN, x)
    for op in (ATEN.median, ATEN.nanmedian):
        for value in (x, x[0, 0, 0], x[:1]):
            check(op.default, value, table=table)
        for dim, keepdim in itertools.product((0, 1, -1), (False, True)):
            check(op.dim, x, dim, keepdim, table=table)
        check(op.dim, x[0, 0, 0], 0, True, table=table)


@pytest.mark.parametrize("table", [DECOMPOSITIONS, CUDA_DECOMPOSITIONS], ids=["sort", "select"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_kth_values(dtype: torch.dtype, table: Any) -> None:
    x = torch.randperm(42, generator=torch.Generator().manual_seed(2)).view(6, 7).to(dtype)
    for k, dim, keepdim in itertools.product((1, 4, 6), (0, -1), (False, True)):
        check(ATEN.kthvalue.default, x, k, dim, keepdim, table=table)
    check(ATEN.kthvalue.default, x[0, 0], 1, 0, table=table)
    if dtype.is_floating_point:
        x[2, 3] = NAN
        for k in (6, 7):
            check(ATEN.kthvalue.default, x, k, 1, table=table)


def test_medians_of_nans_only() -> None:
    x = torch.full((3, 4), NAN)
    check(ATEN.median.dim, x, 0)
    values, indices = CUDA_DECOMPOSITIONS[ATEN.nanmedian.dim](x, 0)
    assert values.isnan().all()
    assert ((indices >= 0) & (indices < 3)).all()  # of equal elements any


@pytest.mark.parametrize("table", [DECOMPOSITIONS, CUDA_DECOMPOSITIONS], ids=["one", "spread"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histograms(dtype: torch.dtype, table: Any) -> None:
    bounded = (1, 7, 300) if table is DECOMPOSITIONS else (5000,)
    for x in (some(50, 60, dtype=dtype), some(7, dtype=dtype), torch.ones(5, dtype=dtype)):
        for bins in (1, 7, 300):
            check(ATEN.histc.default, x, bins, table=table)
        for bins in bounded:
            check(ATEN.histc.default, x, bins, -1, 2, table=table)
    check(ATEN.histc.default, some(0, dtype=dtype), bounded[0], 0, 1, table=table)


def test_histograms_with_bounds_are_a_kernel_for_cuda() -> None:
    assert CUDA_DECOMPOSITIONS[ATEN.histc.default](some(7), 300, -1, 2) is NotImplemented


def test_medians_of_equal_elements_point_at_one() -> None:
    x = torch.tensor([[3.0, 1.0, 1.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
    for op, args in ((ATEN.median.dim, (x, 1)), (ATEN.kthvalue.default, (x, 2, 1))):
        values, indices = CUDA_DECOMPOSITIONS[op](*args)
        assert values.tolist() == [1.0, 2.0]
        assert torch.equal(x.gather(1, indices[:, None])[:, 0], values)


def test_medians_of_integers() -> None:
    x = torch.randperm(42).view(6, 7)
    check(ATEN.median.default, x)
    check(ATEN.median.dim, x, 1)
    check(ATEN.nanmedian.dim, x.int(), 0, True)


@settings(max_examples=100)
@given(st.data())
def test_index_put_keeps_the_last_of_equal_places(data: st.DataObject) -> None:
    x = some(3, 4, 2)
    dims = data.draw(st.sets(st.integers(0, 2), min_size=1))
    shape = data.draw(st.sampled_from([(2,), (7,), (3, 2), (2, 1)]))
    count = math.prod(shape)
    indices: list[torch.Tensor | None] = [None] * (max(dims) + 1)
    for dim in dims:
        place = st.integers(-x.size(dim), x.size(dim) - 1)
        drawn = data.draw(st.lists(place, min_size=count, max_size=count))
        indices[dim] = torch.tensor(drawn).view(shape)
    values = some(*x[tuple(slice(None) if i is None else i for i in indices)].shape)
    check(ATEN.index_put.default, x, indices, values)
    if values[..., 0].numel() > 1:
        check(ATEN.index_put.default, x, indices, values[..., :1])


def test_index_puts_that_are_left_to_inductor() -> None:
    put, x = CUDA_DECOMPOSITIONS[ATEN.index_put.default], some(9, 3)
    twice = torch.tensor([1, 1])
    assert put(x, [twice], some(2, 3), True) is NotImplemented
    assert put(x, [twice], some(1)) is NotImplemented
    assert put(x, [torch.zeros(65, dtype=torch.int64)], some(65, 3)) is NotImplemented
    assert put(x, [twice[:1]], some(1, 3)) is NotImplemented
    assert put(x, [x[:, 0] > 0], some(1, 3), True) is NotImplemented
    assert put(x, [None, x[0] > 0], some(9, 1)) is NotImplemented
    assert ATEN.index_put.default not in DECOMPOSITIONS
    check(ATEN.index_copy.default, x, -1, torch.tensor([2, 0, 2]), some(9, 3))


class Decomposed(torch.nn.Module):
    """Decomposed ops in one program, so that it is compiled once."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = torch.nn.EmbeddingBag(9, 4, mode="sum")
        self.means = torch.nn.EmbeddingBag(9, 4, mode="mean", padding_idx=2)
        self.maxima = torch.nn.EmbeddingBag(9, 4, mode="max", include_last_offset=True)

    def forward(self, x: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> Any:
        """``x`` is ``[n, 3, d, h, 24]``."""
        functional = torch.nn.functional
        return (
            functional.adaptive_avg_pool3d(x, (3, 2, 4)),
            *functional.adaptive_max_pool3d(x, (2, 3, 5), return_indices=True),
            functional.adaptive_avg_pool2d(x[:, :, 0], (1, 5)),
            functional.avg_pool3d(x, 4, 2, 1, count_include_pad=False),
            functional.avg_pool2d(x[:, :, 0], (6, 5), (2, 3)),
            functional.avg_pool3d(x, 2),
            torch.median(x),
            *torch.median(x, 1, keepdim=True),
            torch.nanmedian(x, -1)[0],
            self.sums(indices, offsets[:-1]),
            self.means(indices, offsets[:-1]),
            self.maxima(indices, offsets),
        )


def test_lowered_with_dynamic_shapes() -> None:
    model = Decomposed().eval()
    x = some(2, 3, 7, 9, 24)
    x[0, 0, 0, 0, 0] = NAN
    indices = torch.tensor([1, 2, 3, 3, 8, 0, 2])
    dim = torch.export.Dim
    d, h, other_sizes = dim("d", min=6, max=12), dim("h", min=8, max=12), (12, 8)
    if older_than(2, 13):  # its export fixes whether sizes are odd that pools with stride 2 see
        d, h, other_sizes = 2 * dim("d", min=3, max=5) + 1, 2 * dim("h", min=4, max=5) + 1, (11, 11)
    lowered = lower(
        model,
        (x, indices, torch.tensor([0, 2, 2, 5, 7])),
        dynamic_shapes=(
            {0: dim("n", min=2, max=5), 2: d, 3: h},
            {0: dim("indices", min=2, max=50)},
            {0: dim("offsets", min=3, max=20)},
        ),
    )
    assert [op.name for op in lowered.executorch_program.execution_plan[0].operators] == []
    with Program(bytes(lowered.buffer)) as program, torch.no_grad():
        for n, sizes, used, starts in (
            (2, (7, 9), 7, (0, 2, 2, 5)),
            (3, other_sizes, 5, (0, 4, 5)),
        ):
            deep, high = sizes
            inputs = (
                x[:1].expand(n, 3, 7, 9, 24)[:, :, :, :1].repeat(1, 1, 2, high, 1)[:, :, :deep]
                + some(high, 1),
                indices[:used],
                torch.tensor([*starts, used]),
            )
            for found, expected in zip(program(*inputs), model(*inputs), strict=True):
                torch.testing.assert_close(found, expected, equal_nan=True)


def test_a_plugins_decomposition_takes_the_place_of_ours() -> None:
    from aoti_plugins import get_manager, hookimpl

    def mine(x: torch.Tensor) -> torch.Tensor:
        return x.flatten().sort().values[(x.numel() - 1) // 2]

    class Acme:
        @hookimpl
        def aoti_decompositions(self, device: str) -> dict:
            return {torch.ops.aten.median.default: mine}

    before = get_manager().decompositions("cpu")
    with get_manager().registered(Acme(), "acme"):
        found = get_manager().decompositions("cpu")
    assert inspect.unwrap(found[torch.ops.aten.median.default]) is mine
    assert found.keys() == before.keys()
    assert get_manager().decompositions("cpu") == before


def test_heads_of_keys_and_values_that_queries_share() -> None:
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 1, 7, 8)
    every = (q, k.repeat_interleave(2, 1), v.expand(-1, 4, -1, -1))
    expected = torch.nn.functional.scaled_dot_product_attention(*every)
    found, _ = attention.flash_attention_for_cpu(q, k, v)
    torch.testing.assert_close(found, expected)
    found, weights = attention.math_for_mps(q, k, v, enable_gqa=True)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(weights @ every[2], expected)


def test_only_masks_are_counted() -> None:
    """Most uses of an op leave a program as it is, and it is not traced again for them."""

    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x[places], x[:, x[0] > 0]

    program = torch.export.export(Both(), (torch.randn(3, 4), torch.tensor([1, 2])))
    nodes = [n for n in program.graph.nodes if n.target is ATEN.index.Tensor]
    assert [ONLY_FOR[data_sizes.index](node) for node in nodes] == [False, True]


def check_program(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """Compare a program, decomposed as for ExecuTorch and further, with the function."""
    program = torch.export.export(OfFunction(function), inputs)
    program = CpuPartitioner().transform_for_pre_decomposition(program)
    program = program.run_decompositions(decompositions.CPU_DECOMPOSITIONS)
    found = pytree.tree_leaves(program.module()(*inputs))
    for one, other in zip(found, pytree.tree_leaves(function(*inputs)), strict=True):
        torch.testing.assert_close(one, other)


MASKS = [torch.tensor([1, 0, 1, 1, 0, 1]) > 0, torch.zeros(6, dtype=torch.bool)]


@pytest.mark.parametrize("mask", MASKS, ids=["some", "none"])
def test_slices_that_data_chooses_are_repeated(mask: torch.Tensor) -> None:
    repeats = torch.tensor([1, 2, 3, 4, 0, 2])
    check_program(
        lambda x, m, r: torch.repeat_interleave(x[m], r[m], dim=0), some(6, 2), mask, repeats
    )


@pytest.mark.parametrize("mask", MASKS, ids=["some", "none"])
def test_complex_numbers_that_data_chooses(mask: torch.Tensor) -> None:
    x = torch.complex(some(6), some(6).flip(0))
    check_program(lambda x, m: (x[m] * x[m], x[m] + x[m], x[m].abs()), x, mask)
    check_program(lambda m: m.nonzero().to(torch.complex64).abs(), mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_complex_numbers_are_added_to_real_tensors(dtype: torch.dtype) -> None:
    x = (some(4, 3) > 0).to(dtype)
    check_program(lambda x: (x + 2j, torch.sub(x.int(), 1 + 1j, alpha=3), 1j - x.int()), x)
    check_program(lambda x: torch.arange(3) + 1j + x, x)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_powers_of_unsigned_integers_use_every_bit(dtype: torch.dtype) -> None:
    x = torch.ones(3, dtype=dtype)
    table = {ATEN.pow.Tensor_Tensor: decompositions.arithmetic.power}
    traced = make_fx(torch.pow, table, "fake")(x, x)  # eager PyTorch has no kernel for them
    ops = Counter(node.target for node in traced.graph.nodes)
    shifts = ops[ATEN.__rshift__.Scalar] + ops[ATEN.bitwise_right_shift.Tensor_Scalar]
    assert shifts == torch.iinfo(dtype).bits
    assert ATEN.abs.default not in ops
    assert ATEN.lt.Scalar not in ops


@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1.0, 1e25, 1e36])
def test_reflections_of_small_and_large_numbers(scale: float) -> None:
    x = some(2, 5, 3)
    found, factors = DECOMPOSITIONS[ATEN.geqrf.default](x * scale)
    expected, expected_factors = torch.geqrf(x)
    is_upper = torch.ones(5, 3).triu() > 0
    torch.testing.assert_close(torch.where(is_upper, found / scale, found), expected)
    torch.testing.assert_close(factors, expected_factors)
    check(ATEN.geqrf.default, torch.zeros(4, 3))
    check(ATEN.geqrf.default, torch.eye(4) + torch.eye(4).roll(1, 0) * scale)


def test_integers_are_added_up_at_no_places() -> None:
    put, none = ATEN.index_put.default, torch.empty(0, dtype=torch.int64)
    for x in (torch.ones(4, 3).long(), torch.ones(0, 3).long(), torch.ones(4, 0).long()):
        check(put, x, [none], torch.ones(0, x.size(1)).long(), True)
        check(put, x, [none, none], none, True)
        check(put, x, [None, none], torch.ones(x.size(0), 0).long(), True)
    check(put, torch.ones(4, 0).long(), [torch.tensor([1, 1])], torch.ones(2, 0).long(), True)


def test_integers_are_added_up_inside_of_every_dim() -> None:
    x = torch.arange(12).view(4, 3)

    def add(*places: int) -> None:
        indices = [torch.tensor([place]) for place in places]
        check(ATEN.index_put.default, x, indices, torch.tensor([5]), True)

    for places in ((-4, -3), (3, 2), (-4,)):
        add(*places)
    for places in ((0, 3), (0, 5), (0, -4), (4, 0), (4, -1), (-5, 2), (-5,), (4,)):
        with pytest.raises(RuntimeError, match="is out of bounds for dimension 0 with size"):
            add(*places)


@pytest.mark.parametrize(
    "shape", [(3, 3, 5), (3, 1, 5), (3, 3, 1), (3, 1, 1), (1, 3, 5), (3, 5), (3, 1), (5,), (1,)]
)
def test_masked_writes_of_values_that_are_broadcast(shape: tuple[int, ...]) -> None:
    mask = torch.tensor([True, False, True, True])
    check(ATEN.index_put.default, some(4, 3, 5), [mask], some(*shape))


def test_layouts_of_copies_to_complex_numbers() -> None:
    copy, x = DECOMPOSITIONS[ATEN._to_copy.default], some(2, 3, 4, 5)
    assert DECOMPOSITIONS[torch.ops.dim_order_ops._to_dim_order_copy.default] is copy
    last = x.to(memory_format=torch.channels_last)
    row_major: tuple[tuple[torch.Tensor, dict[str, Any]], ...] = (
        (x, {}),
        (x, {"memory_format": torch.preserve_format}),
        (last, {"memory_format": torch.contiguous_format}),
        (last, {"dim_order": [0, 1, 2, 3]}),
    )
    for source, options in row_major:
        found = copy(source, dtype=torch.complex64, **options)
        assert found.is_contiguous()
        torch.testing.assert_close(found, x.to(torch.complex64))
    others: tuple[tuple[torch.Tensor, dict[str, Any]], ...] = (
        (last, {}),
        (last, {"memory_format": torch.preserve_format}),
        (x, {"memory_format": torch.channels_last}),
        (x, {"dim_order": [0, 2, 3, 1]}),
    )
    for source, options in others:
        assert copy(source, dtype=torch.complex64, **options) is NotImplemented


def check_search(rows: torch.Tensor, x: Any, **options: Any) -> None:
    expected = torch.searchsorted(rows, x, **options)
    number = ATEN.searchsorted.Tensor if isinstance(x, torch.Tensor) else ATEN.searchsorted.Scalar
    for table in (decompositions.CPU_DECOMPOSITIONS, CUDA_DECOMPOSITIONS):
        found = make_fx(functools.partial(number, **options), table, "fake")(rows, x)(rows, x)
        assert torch.equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("size", [4, 40])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_searches_for_a_number_are_in_the_dtype_of_the_rows(dtype: torch.dtype, size: int) -> None:
    rows = (torch.arange(size, dtype=torch.float64) / 10).to(dtype)
    for number in (0.1, 0.3, 1, -1, 100):
        check_search(rows, number)
        check_search(rows, torch.tensor(number, dtype=torch.float64 if size == 4 else None))


@pytest.mark.parametrize("size", [4, 40])
def test_searches_are_in_the_dtype_of_both(size: int) -> None:
    short = torch.arange(size).to(torch.uint8)
    for x in (torch.tensor([-5, 3, 100]).to(torch.int8), torch.tensor([2.5]), torch.tensor(300)):
        check_search(short, x, right=True, out_int32=True)
    check_search(torch.arange(size) / 10, torch.tensor(0.1, dtype=torch.float64), right=True)
    check_search(torch.arange(size) / 10, torch.tensor([0.1], dtype=torch.float64), right=True)


def test_a_size_of_repetitions_is_believed() -> None:
    repeat = DECOMPOSITIONS[ATEN.repeat_interleave.Tensor]
    repeats = torch.tensor([1, 2])
    for size, expected in ((3, [0, 1, 1]), (6, [0, 1, 1, 1, 1, 1]), (2, [0, 1])):
        assert repeat(repeats, output_size=size).tolist() == expected
