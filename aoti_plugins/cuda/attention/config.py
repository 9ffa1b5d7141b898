"""Which kernel computes an attention, and how it is cut: plain functions of shapes and target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from aoti_plugins.cuda.attention.target import AttentionTarget
from aoti_plugins.errors import LoweringError

MAX_HEAD_DIM = 256

# Rows (queries × heads of a group) up to which all queries of a key head fit one tile.
_DECODE_ROWS = 64
# The same where the number of queries is dynamic: a token after another, or a few at once.
_FEW_ROWS = 16
# Elements of a tile of keys for a single row: a thread holds all of its part in registers.
_ROW_TILE = 4096
# A part of the keys shorter than this costs more to put together than it saves.
_KEYS_PER_SPLIT = 128
_MAX_SPLITS = 128
# Time of a program apart from its blocks, and of the second kernel, in blocks of keys.
_PROGRAM_COST = 2.0
_COMBINE_COST = 4.0
# Time of a query in tiles of 64, relative to larger ones.
_SMALL_TILE_COST = 1.15


@dataclass(frozen=True)
class Problem:
    """The sizes of one attention; dynamic ones as the example's or the largest.

    Attributes:
        batch: product of the leading dimensions.
        heads: heads of the query.
        kv_heads: heads of key and value; divides ``heads``.
        q_len: queries.
        kv_len: keys.
        head_dim: elements of a query and of a key.
        v_head_dim: elements of a value.
        itemsize: bytes of an element, 2 or 4.
        mask_itemsize: bytes of an element of the mask; 0 without one.
        q_len_is_static: whether every run has ``q_len`` queries.
        attends_to_itself: whether every run has as many keys as queries.
    """

    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    v_head_dim: int
    itemsize: int
    mask_itemsize: int = 0
    q_len_is_static: bool = True
    attends_to_itself: bool = False

    @property
    def rows(self) -> int:
        """Query rows that read the same keys."""
        return self.q_len * (self.heads // self.kv_heads)

    @property
    def widths(self) -> tuple[int, int]:
        """Head sizes as the kernels hold them: powers of two, at least 16."""
        return block_width(self.head_dim), block_width(self.v_head_dim)


@dataclass(frozen=True)
class PrefillConfig:
    """A program for each tile of queries of a head goes through all keys.

    Attributes:
        block_m: queries of a tile.
        block_n: keys of a step.
        num_warps: warps of a program.
        num_stages: buffers for loads that run ahead.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class DecodeConfig:
    """A program takes all queries that share keys, over a part of the keys.

    Attributes:
        block_m: rows of a tile; 1 computes without matrix products.
        block_n: keys of a step.
        splits: parts of the keys; with more than one, a second kernel puts them together.
        num_warps: warps of a program.
        num_stages: buffers for loads that run ahead.
    """

    block_m: int
    block_n: int
    splits: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class EitherConfig:
    """The number of queries is known when the program runs, and then decides.

    Attributes:
        few: for up to ``most_few`` queries.
        many: for more.
        most_few: queries whose rows fit one tile of ``few``.
    """

    few: DecodeConfig
    many: PrefillConfig
    most_few: int


Config: TypeAlias = PrefillConfig | DecodeConfig | EitherConfig

_OneConfig = TypeVar("_OneConfig", PrefillConfig, DecodeConfig)


def choose(problem: Problem, target: AttentionTarget) -> Config:
    """Choose kernel and configuration; what it returns fits the target's shared memory."""
    if not problem.q_len_is_static and problem.attends_to_itself:
        return _prefill(problem, target)
    if not problem.q_len_is_static:
        most_few = max(1, _FEW_ROWS * problem.kv_heads // problem.heads)
        few = replace(problem, q_len=most_few, q_len_is_static=True)
        return EitherConfig(_decode(few, target), _prefill(problem, target), most_few)
    if _decodes(problem, target):
        return _decode(problem, target)
    return _prefill(problem, target)


def takes_few_queries(problem: Problem) -> bool:
    """Whether every run has so few queries that those which share keys fit one tile."""
    return problem.q_len_is_static and problem.rows <= _DECODE_ROWS


def block_width(size: int) -> int:
    """The smallest power of two that holds ``size`` and that a matrix product takes."""
    return max(16, 1 << (size - 1).bit_length())


def shared_nbytes(config: Config, problem: Problem, target: AttentionTarget) -> int:
    """Upper bound of the shared memory that a block needs, in bytes.

    Tiles of keys, values and mask, once for each load in flight; queries; weights on their way from
    one matrix product to the next; and what a reduction over warps needs. Matrix products that read
    shared memory while they run (compute capability 9 and 10) keep one more tile than has loads in
    flight.
    """
    if isinstance(config, EitherConfig):
        return max(shared_nbytes(one, problem, target) for one in (config.few, config.many))
    width, v_width = problem.widths
    if config.block_m == 1:
        return config.block_n * v_width * 4 + _REDUCTION_NBYTES
    step = config.block_n * (width + v_width) * problem.itemsize
    step += config.block_n * config.block_m * problem.mask_itemsize
    tiles = config.num_stages
    weights = config.block_m * config.block_n * problem.itemsize
    if _products_read_shared_memory(config, problem, target):
        weights = 0
    else:
        tiles = max(tiles - 1, 1)
    queries = config.block_m * width * problem.itemsize
    result = config.block_m * v_width * problem.itemsize
    return max(step * tiles + queries + weights, result) + _REDUCTION_NBYTES


_REDUCTION_NBYTES = 2048


def _products_read_shared_memory(
    config: PrefillConfig | DecodeConfig, problem: Problem, target: AttentionTarget
) -> bool:
    return _has_large_tiles(target) and problem.itemsize == 2 and config.block_m >= 64


def _has_large_tiles(target: AttentionTarget) -> bool:
    """Whether warps compute matrix products together, on tiles in shared memory."""
    return target.capability[0] in (9, 10, 11)


def _decodes(problem: Problem, target: AttentionTarget) -> bool:
    """Whether splitting the keys pays: few queries, or too few tiles for the GPU and many keys."""
    if takes_few_queries(problem):
        return True
    tiles = problem.batch * problem.heads * math.ceil(problem.q_len / 64)
    return tiles * 4 <= target.multiprocessors and problem.kv_len >= 8 * problem.q_len


_Candidates: TypeAlias = "tuple[tuple[int, int, int, int], ...]"

# Tiles for prefill by head size and preference: block_m, block_n, num_warps, num_stages.
_LARGE_TILES: dict[int, _Candidates] = {
    64: ((128, 128, 8, 3), (128, 64, 4, 3)),
    128: ((128, 128, 8, 2), (128, 64, 8, 2)),
    256: ((128, 64, 8, 2), (128, 32, 8, 2)),
}
# Several small tiles at once keep the tensor cores of compute capability 9 busier than a large one.
_SEVERAL_TILES = _LARGE_TILES | {64: ((64, 64, 4, 3), (64, 64, 4, 2))}
_SMALL_TILES: dict[int, _Candidates] = {
    64: ((128, 64, 4, 3), (128, 64, 4, 2)),
    128: ((128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2)),
    256: ((64, 64, 8, 2), (64, 32, 8, 2), (64, 16, 4, 2)),
}
# Outside the tensor cores operands pass through registers, and the code is long.
_FLOAT32: dict[int, _Candidates] = {
    64: ((64, 32, 8, 2), (32, 32, 4, 2)),
    128: ((64, 32, 8, 2), (32, 32, 4, 2)),
    256: ((32, 32, 8, 2), (32, 16, 4, 2)),
}


def _prefill(problem: Problem, target: AttentionTarget) -> PrefillConfig:
    candidates = _prefill_candidates(problem, target)
    chosen = _first_that_fits((PrefillConfig(*c) for c in candidates), problem, target)
    if chosen.block_m > 64 and _ends_sooner_in_small_tiles(problem, target, chosen.block_m):
        warps = 4 if max(problem.widths) <= 128 else chosen.num_warps
        return PrefillConfig(64, min(chosen.block_n, 64), warps, chosen.num_stages)
    return chosen


def _prefill_candidates(problem: Problem, target: AttentionTarget) -> _Candidates:
    if problem.itemsize == 4:
        table = _FLOAT32
    else:
        table = _LARGE_TILES if _has_large_tiles(target) else _SMALL_TILES
        table = _SEVERAL_TILES if target.capability[0] == 9 else table
    return table[max(64, *problem.widths)]


def _ends_sooner_in_small_tiles(problem: Problem, target: AttentionTarget, block_m: int) -> bool:
    """Whether a tile of ``block_m`` queries is alone, or those of 64 are dealt out more evenly."""
    large, small = (_tiles_each(problem, target, size) for size in (block_m, 64))
    return large < 1 or 64 * math.ceil(small) * _SMALL_TILE_COST < block_m * math.ceil(large)


def _tiles_each(problem: Problem, target: AttentionTarget, block_m: int) -> float:
    """Tiles by multiprocessor."""
    tiles = problem.batch * problem.heads * math.ceil(problem.q_len / block_m)
    return tiles / target.multiprocessors


def _decode(problem: Problem, target: AttentionTarget) -> DecodeConfig:
    chosen = _first_that_fits(_decode_candidates(problem), problem, target)
    return replace(chosen, splits=_splits(problem, target, chosen))


def _decode_candidates(problem: Problem) -> Iterator[DecodeConfig]:
    """By preference: all rows in one tile, and 16 KiB of keys in a step; of one row, less."""
    width = max(64, *problem.widths)
    keys = max(16, min(128, 16384 // (width * problem.itemsize)))
    if problem.rows == 1:
        yield DecodeConfig(1, max(16, min(keys, _ROW_TILE // width)), 1, 4, 1)
        return
    rows = min(block_width(problem.rows), _DECODE_ROWS)
    while rows >= 16:
        for block_n in (keys, keys // 2):
            for stages in (3, 2, 1):
                yield DecodeConfig(rows, max(block_n, 16), 1, 4, stages)
        rows //= 2


def _splits(problem: Problem, target: AttentionTarget, config: DecodeConfig) -> int:
    """The number of parts of least estimated time, in steps of the longest multiprocessor."""
    blocks = math.ceil(problem.kv_len / config.block_n)
    programs = problem.batch * problem.kv_heads * math.ceil(problem.rows / config.block_m)
    slots = 2 * target.multiprocessors
    most = max(1, min(_MAX_SPLITS, problem.kv_len // _KEYS_PER_SPLIT))

    def time(splits: int) -> float:
        waves = math.ceil(programs * splits / slots)
        combine = _COMBINE_COST if splits > 1 else 0.0
        return waves * (math.ceil(blocks / splits) + _PROGRAM_COST) + combine

    return min(range(1, most + 1), key=time)


def _first_that_fits(
    candidates: Iterable[_OneConfig], problem: Problem, target: AttentionTarget
) -> _OneConfig:
    """The first candidate whose shared memory a block of the target can get."""
    needed = []
    for candidate in candidates:
        needed.append(shared_nbytes(candidate, problem, target))
        if needed[-1] <= target.shared_memory:
            return candidate
    raise LoweringError(
        f"attention kernels for {problem} need {min(needed)} bytes of shared memory, "
        f"the target gives a block {target.shared_memory}"
    )
