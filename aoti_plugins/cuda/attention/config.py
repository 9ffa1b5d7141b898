"""Which kernel computes an attention, and how it is cut: plain functions of shapes and target."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from aoti_plugins.cuda.attention.target import AttentionTarget
from aoti_plugins.errors import LoweringError

MAX_HEAD_DIM = 256

# Rows (queries × heads of a group) up to which all queries of a key head fit one tile.
_DECODE_ROWS = 64
# A part of the keys shorter than this costs more to put together than it saves.
_KEYS_PER_SPLIT = 128
_MAX_SPLITS = 128
# Time of a program apart from its blocks, and of the second kernel, in blocks of keys.
_PROGRAM_COST = 2.0
_COMBINE_COST = 4.0


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


_AnyConfig = TypeVar("_AnyConfig", PrefillConfig, DecodeConfig)


def choose(problem: Problem, target: AttentionTarget) -> PrefillConfig | DecodeConfig:
    """Choose kernel and configuration; what it returns fits the target's shared memory."""
    if _decodes(problem, target):
        return _decode(problem, target)
    return _prefill(problem, target)


def block_width(size: int) -> int:
    """The smallest power of two that holds ``size`` and that a matrix product takes."""
    return max(16, 1 << (size - 1).bit_length())


def shared_nbytes(config: PrefillConfig | DecodeConfig, problem: Problem) -> int:
    """Upper bound of the shared memory that a block needs, in bytes.

    Queries, the buffered tiles of keys, values and mask, and where products run outside the tensor
    cores (float32) the weights; what a reduction over warps needs comes on top.
    """
    width, v_width = problem.widths
    if config.block_m == 1:
        return config.block_n * v_width * 4 + _REDUCTION_NBYTES
    step = config.block_n * (width + v_width) * problem.itemsize
    step += config.block_n * config.block_m * problem.mask_itemsize
    per_step = step * config.num_stages
    queries = config.block_m * width * problem.itemsize
    weights = config.block_m * config.block_n * 4 if problem.itemsize == 4 else 0
    result = config.block_m * v_width * problem.itemsize
    return max(per_step + queries + weights, result) + _REDUCTION_NBYTES


_REDUCTION_NBYTES = 2048


def _decodes(problem: Problem, target: AttentionTarget) -> bool:
    """Whether splitting the keys pays: few queries, or too few tiles for the GPU and many keys."""
    if not problem.q_len_is_static:
        return False
    if problem.rows <= _DECODE_ROWS:
        return True
    tiles = problem.batch * problem.heads * math.ceil(problem.q_len / 64)
    return tiles * 4 <= target.multiprocessors and problem.kv_len >= 8 * problem.q_len


# Prefill candidates by preference: block_m, block_n, num_warps, num_stages.
_Candidates = tuple[tuple[int, int, int, int], ...]

_HOPPER: dict[int, _Candidates] = {
    64: ((128, 128, 8, 3), (128, 64, 4, 3)),
    128: ((128, 128, 8, 2), (128, 64, 8, 2)),
    256: ((128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2)),
}
_AMPERE: dict[int, _Candidates] = {
    64: ((128, 64, 4, 3), (128, 64, 4, 2), (64, 64, 4, 2)),
    128: ((128, 64, 8, 3), (128, 32, 4, 3), (128, 32, 4, 2)),
    256: ((128, 64, 8, 2), (64, 32, 4, 2), (64, 16, 4, 2)),
}
# Outside the tensor cores every operand passes through registers: small tiles.
_FLOAT32: dict[int, _Candidates] = {
    64: ((64, 32, 4, 2), (32, 32, 4, 2)),
    128: ((32, 32, 4, 2), (32, 32, 4, 1)),
    256: ((32, 16, 4, 2), (16, 16, 4, 1)),
}


def _prefill(problem: Problem, target: AttentionTarget) -> PrefillConfig:
    candidates = _prefill_candidates(problem, target)
    chosen = _first_that_fits((PrefillConfig(*c) for c in candidates), problem, target)
    while chosen.block_m > 64 and _programs(problem, chosen.block_m) < target.multiprocessors:
        chosen = PrefillConfig(
            chosen.block_m // 2, chosen.block_n, max(chosen.num_warps // 2, 4), chosen.num_stages
        )
    return chosen


def _prefill_candidates(problem: Problem, target: AttentionTarget) -> _Candidates:
    if problem.itemsize == 4:
        table = _FLOAT32
    else:
        table = _HOPPER if target.capability >= (9, 0) else _AMPERE
    return table[max(64, *problem.widths)]


def _programs(problem: Problem, block_m: int) -> int:
    return problem.batch * problem.heads * math.ceil(problem.q_len / block_m)


def _decode(problem: Problem, target: AttentionTarget) -> DecodeConfig:
    block_m = 1 if problem.rows == 1 else min(block_width(problem.rows), _DECODE_ROWS)
    width = max(64, *problem.widths)
    # A step reads 16 or 32 KiB of keys, and as much of values.
    block_n = max(16, min(128, 16384 // (width * problem.itemsize)))
    if block_m == 1:
        shapes = [(1, min(block_n, 64), 4, 1)]
    else:
        stages = (3, 2, 1)
        shapes = [(block_m, n, 4, s) for n in (block_n, block_n // 2) if n >= 16 for s in stages]
    chosen = _first_that_fits(
        (DecodeConfig(m, n, 1, warps, stages) for m, n, warps, stages in shapes), problem, target
    )
    splits = _splits(problem, target, chosen.block_m, chosen.block_n)
    return DecodeConfig(block_m, chosen.block_n, splits, chosen.num_warps, chosen.num_stages)


def _splits(problem: Problem, target: AttentionTarget, block_m: int, block_n: int) -> int:
    """The number of parts of least estimated time, in steps of the longest multiprocessor."""
    blocks = math.ceil(problem.kv_len / block_n)
    programs = problem.batch * problem.kv_heads * math.ceil(problem.rows / block_m)
    slots = 2 * target.multiprocessors
    most = max(1, min(_MAX_SPLITS, problem.kv_len // _KEYS_PER_SPLIT))

    def time(splits: int) -> float:
        waves = math.ceil(programs * splits / slots)
        combine = _COMBINE_COST if splits > 1 else 0.0
        return waves * (math.ceil(blocks / splits) + _PROGRAM_COST) + combine

    return min(range(1, most + 1), key=time)


def _first_that_fits(
    candidates: Iterable[_AnyConfig], problem: Problem, target: AttentionTarget
) -> _AnyConfig:
    """The first candidate whose shared memory a block of the target can get."""
    needed = []
    for candidate in candidates:
        needed.append(shared_nbytes(candidate, problem))
        if needed[-1] <= target.shared_memory:
            return candidate
    raise LoweringError(
        f"attention kernels for {problem} need {min(needed)} bytes of shared memory, "
        f"the target gives a block {target.shared_memory}"
    )
