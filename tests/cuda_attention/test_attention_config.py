"""Configurations fit their GPUs, and use them."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoti_plugins.cuda.attention.config import (
    DecodeConfig,
    EitherConfig,
    PrefillConfig,
    Problem,
    block_width,
    choose,
    shared_nbytes,
)
from aoti_plugins.cuda.attention.target import (
    DEFAULT_TARGET,
    AttentionTarget,
    attention_target,
    current_target,
)
from aoti_plugins.errors import LoweringError

H100 = AttentionTarget((9, 0), 132, 232448)
B200 = AttentionTarget((10, 0), 148, 232448)
TARGETS = (
    DEFAULT_TARGET,
    AttentionTarget((8, 0), 108, 166912),
    AttentionTarget((8, 6), 82, 101376),
    AttentionTarget((8, 7), 16, 166912),
    AttentionTarget((8, 9), 58, 101376),
    H100,
    B200,
    AttentionTarget((11, 0), 20, 232448),
    AttentionTarget((12, 0), 170, 101376),
)
ONE_LAYER = Problem(4, 16, 16, 2048, 2048, 64, 64, 2)

lengths = st.integers(1, 200_000)
problems = st.builds(
    lambda batch, group, kv_heads, q_len, kv_len, dim, v_dim, itemsize, mask, static: Problem(
        batch, group * kv_heads, kv_heads, q_len, kv_len, dim, v_dim, itemsize, mask, static
    ),
    st.integers(1, 64),
    st.integers(1, 64),
    st.integers(1, 64),
    st.one_of(st.integers(1, 70), lengths),
    lengths,
    st.integers(1, 256),
    st.integers(1, 256),
    st.sampled_from([2, 4]),
    st.sampled_from([0, 1, 2, 4]),
    st.booleans(),
)


@given(problems, st.sampled_from(TARGETS))
def test_every_choice_fits(problem: Problem, target: AttentionTarget) -> None:
    config = choose(problem, target)
    assert shared_nbytes(config, problem, target) <= target.shared_memory
    for one in (config.few, config.many) if isinstance(config, EitherConfig) else (config,):
        sizes = [one.block_m, one.block_n, one.num_warps]
        assert all(size & (size - 1) == 0 for size in sizes)
        assert one.block_m == 1 or min(one.block_m, one.block_n) >= 16
        assert one.num_stages >= 1


@given(problems, st.sampled_from(TARGETS))
def test_dynamic_queries_decide_when_the_program_runs(
    problem: Problem, target: AttentionTarget
) -> None:
    config = choose(dataclasses.replace(problem, q_len_is_static=False), target)
    assert isinstance(config, EitherConfig)
    assert config.most_few >= 1
    group = problem.heads // problem.kv_heads
    assert config.most_few * group <= max(16, group)


def test_self_attention_of_dynamic_length_has_no_cache_to_split() -> None:
    problem = dataclasses.replace(ONE_LAYER, q_len_is_static=False, attends_to_itself=True)
    assert isinstance(choose(problem, H100), PrefillConfig)


WIDE_LAYER = dataclasses.replace(ONE_LAYER, head_dim=128, v_head_dim=128)


def test_many_queries_take_large_tiles() -> None:
    for problem, target in ((WIDE_LAYER, H100), (ONE_LAYER, B200)):
        config = choose(problem, target)
        assert isinstance(config, PrefillConfig)
        assert config.block_m == 128


def test_small_heads_take_several_small_tiles_on_an_h100() -> None:
    assert choose(ONE_LAYER, H100) == PrefillConfig(64, 64, 4, 3)


def test_few_tiles_become_more_smaller_ones() -> None:
    short = dataclasses.replace(WIDE_LAYER, batch=1, q_len=256)
    assert choose(short, H100).block_m == 64


@pytest.mark.parametrize("heads", [8, 32])
def test_one_query_fills_the_gpu_with_parts_of_the_cache(heads: int) -> None:
    config = choose(Problem(1, heads, 8, 1, 32768, 128, 128, 2), H100)
    assert isinstance(config, DecodeConfig)
    assert config.splits * 8 > H100.multiprocessors
    assert config.block_m == (1 if heads == 8 else 16)


def test_a_batch_that_fills_the_gpu_is_not_split() -> None:
    config = choose(Problem(64, 32, 8, 1, 4096, 128, 128, 2), H100)
    assert isinstance(config, DecodeConfig)
    assert config.splits == 1


def test_a_short_cache_is_not_split() -> None:
    assert choose(Problem(1, 8, 8, 1, 100, 64, 64, 2), H100) == DecodeConfig(1, 64, 1, 4, 1)


def test_a_gpu_without_enough_shared_memory_is_named() -> None:
    small = AttentionTarget((8, 0), 10, 16384)
    with pytest.raises(LoweringError, match="the target gives a block 16384"):
        choose(dataclasses.replace(ONE_LAYER, head_dim=256), small)


@pytest.mark.parametrize(("size", "width"), [(1, 16), (16, 16), (17, 32), (80, 128), (256, 256)])
def test_head_sizes_are_rounded_up(size: int, width: int) -> None:
    assert block_width(size) == width


def test_the_target_holds_inside_its_context_only() -> None:
    assert current_target() == DEFAULT_TARGET
    with attention_target(H100):
        assert current_target() == H100
        with attention_target(TARGETS[1]):
            assert current_target() == TARGETS[1]
        assert current_target() == H100
    assert current_target() == DEFAULT_TARGET


def test_tiles_are_small_where_large_ones_leave_multiprocessors_idle() -> None:
    one_more_than_a_wave = Problem(1, 12, 12, 1500, 1500, 128, 128, 2)  # 144 tiles of 128 for 132
    chosen = choose(one_more_than_a_wave, H100)
    assert isinstance(chosen, PrefillConfig)
    assert chosen.block_m == 64


@pytest.mark.parametrize("width", [64, 128, 256])
def test_a_single_row_goes_through_tiles_that_fit_the_registers(width: int) -> None:
    chosen = choose(Problem(16, 32, 32, 1, 4096, width, width, 2), H100)
    assert isinstance(chosen, DecodeConfig)
    assert chosen.block_m == 1
    assert chosen.block_n * width <= 4096
