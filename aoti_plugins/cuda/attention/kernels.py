"""Attention as Triton kernels.

Not imported with the package: importing this module needs triton. All tensors are addressed by
pointer and strides in elements, any strides, 0 for a dimension that is broadcast. A query is ``q
[batch, heads, q_len, HEAD_DIM]``, keys are ``k [batch, heads / GROUP, kv_len, HEAD_DIM]``, values
``v [batch, heads / GROUP, kv_len, V_HEAD_DIM]``, the mask broadcasts to ``[batch, heads, q_len,
kv_len]``. Scores and sums are float32; exponentials are powers of two, so the scale comes
multiplied by log2(e).

A row for which nothing is left to attend to gives zeros, as PyTorch's math form does. ``CAUSAL``
lets query ``i`` attend to keys ``0..i``, whatever the lengths (PyTorch's ``tril`` from the top
left).

Two ways through the keys: ``attention_prefill`` gives each program a tile of queries of one head
and all keys; ``attention_decode`` gives each program the queries of all heads that share keys and a
part of the keys, and ``attention_combine`` puts the parts together. Most tiles of a mask forbid
everything or nothing: ``mask_tiles`` finds out which, once for all heads and layers.
``attention_prefill`` leaves out what is forbidden before the first and behind the last key that is
not, and goes through the first run of keys that are not at all forbidden without the mask.
"""

# ruff: noqa: N803, N806
# mypy: allow-untyped-defs
# The types of a kernel are Triton's: pointers, integers, and upper-case compile-time constants.

from __future__ import annotations

import triton
import triton.language as tl

NO_MASK = tl.constexpr(0)
BOOL_MASK = tl.constexpr(1)
ADDED_MASK = tl.constexpr(2)

# Queries and keys of a tile of a mask of which one number tells what it lets in.
MASK_TILE = tl.constexpr(64)
NOTHING = tl.constexpr(0)
SOMETHING = tl.constexpr(1)
EVERYTHING = tl.constexpr(2)

# Pairs of a head and a batch whose tiles start by length: those of one pair share keys in the
# second-level cache, so that not all of them begin at once.
PAIRS_TOGETHER = tl.constexpr(16)
# Blocks of keys that are looked up at once.
BLOCKS_TOGETHER = tl.constexpr(32)

LOG2_E = tl.constexpr(1.4426950408889634)
# What the largest score of a row begins with: finite, so that rows of nothing but -inf need no
# care, and nothing else is lower.
LOWEST = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def _scaled_bias(bias):
    # A finite one stays finite: a row of nothing but the lowest numbers has equal weights, in eager
    # PyTorch, too.
    scaled = bias.to(tl.float32) * LOG2_E
    overflows = (scaled == float("-inf")) & (bias != float("-inf"))
    return tl.where(overflows, LOWEST, scaled)


@triton.jit
def _masked_scores(scores, masked, columns, column_is_real, MASK: tl.constexpr):
    # Scores [rows, columns] with the mask applied, scaled ones if it is added. masked: where the
    # mask is, each row's column 0 in it, which rows are real, and the stride of columns.
    mask, mask_rows, row_is_real, mask_n = masked
    tile = mask + mask_rows[:, None] + (columns.to(tl.int64) * mask_n)[None, :]
    is_real = row_is_real[:, None] & column_is_real[None, :]
    if MASK == BOOL_MASK:
        allowed = tl.load(tile, mask=is_real, other=0)
        return tl.where(allowed != 0, scores, float("-inf"))
    bias = tl.load(tile, mask=is_real, other=float("-inf"))
    return scores + _scaled_bias(bias)


@triton.jit
def _loaded(tile, row_is_real, depth, SIZE: tl.constexpr, EDGE: tl.constexpr):
    # Keys or values, SIZE elements of each; with EDGE only those that are real.
    if EDGE and tile.shape[1] != SIZE:
        return tl.load(tile, mask=row_is_real[:, None] & (depth < SIZE)[None, :], other=0.0)
    elif EDGE:
        return tl.load(tile, mask=row_is_real[:, None], other=0.0)
    elif tile.shape[1] != SIZE:
        return tl.load(tile, mask=(depth < SIZE)[None, :], other=0.0)
    else:
        return tl.load(tile)


@triton.jit
def _attend(
    sums,
    inputs,
    start,
    stop,
    hole,
    SCALE_LOG2: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    V_HEAD_DIM: tl.constexpr,
    EDGE: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASK: tl.constexpr,
    STAGES: tl.constexpr,
):
    # One online-softmax sweep over the keys start..stop, all multiples of the tile's keys from
    # start on; without those of the hole, its first one and their number, if there is one. EDGE:
    # the last block may reach over kv_len. inputs: queries and their numbers, a tile of keys at key
    # 0 and the stride of keys, the same of values, the mask, and how many keys there are. sums: of
    # weighed values, the largest scores, and the sums of weights.
    acc, row_max, row_sum = sums
    q, query_index, keys, values, masked, kv_len = inputs
    k_tile, k_n = keys
    v_tile, v_n = values
    BLOCK_N: tl.constexpr = k_tile.shape[0]
    depth = tl.arange(0, k_tile.shape[1])
    v_depth = tl.arange(0, v_tile.shape[1])
    end = stop
    if hole is not None:
        end = stop - hole[1]
    for step in tl.range(start, end, BLOCK_N, num_stages=STAGES):
        first = step
        if hole is not None:
            first = tl.where(step < hole[0], step, step + hole[1])
        columns = first + tl.arange(0, BLOCK_N)
        column_is_real = columns < kv_len
        k_at = k_tile + tl.cast(first, tl.int64) * k_n
        k = _loaded(k_at, column_is_real, depth, HEAD_DIM, EDGE)
        # Products of float32 keep float32's precision; 16-bit ones have only one.
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        # Scores that nothing is added to are scaled on the way, by one instruction with the rest.
        factor: tl.constexpr = 1.0 if MASK == ADDED_MASK else SCALE_LOG2
        if MASK == ADDED_MASK:
            scores = scores * SCALE_LOG2
        if MASK != NO_MASK:
            scores = _masked_scores(scores, masked, columns, column_is_real, MASK)
        if CAUSAL:
            scores = tl.where(columns[None, :] <= query_index[:, None], scores, float("-inf"))
        if EDGE:
            scores = tl.where(column_is_real[None, :], scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1) * factor)
        weights = tl.exp2(scores * factor - new_max[:, None])
        shrink = tl.exp2(row_max - new_max)
        row_sum = row_sum * shrink + tl.sum(weights, 1)
        row_max = new_max
        acc = acc * shrink[:, None]
        v_at = v_tile + tl.cast(first, tl.int64) * v_n
        v = _loaded(v_at, column_is_real, v_depth, V_HEAD_DIM, EDGE)
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")
    return acc, row_max, row_sum


@triton.jit
def mask_tiles(
    mask,
    states,
    heads,
    q_len,
    kv_len,
    mask_b,
    mask_h,
    mask_m,
    mask_n,
    MASK: tl.constexpr,
    WARPS: tl.constexpr,
):
    """What each tile of a mask lets in: NOTHING, SOMETHING, or EVERYTHING without change.

    ``states [batch, heads, tiles of queries, tiles of keys]``, uint8, contiguous; the sizes are the
    mask's own, 1 where it broadcasts. Grid: the elements of ``states``.
    """
    q_len = tl.cast(q_len, tl.int32)
    kv_len = tl.cast(kv_len, tl.int32)
    across = tl.cdiv(kv_len, MASK_TILE)
    down = tl.cdiv(q_len, MASK_TILE)
    program = tl.program_id(0)
    matrix = program // across // down
    head = (matrix % heads).to(tl.int64)
    batch = (matrix // heads).to(tl.int64)
    local = tl.arange(0, MASK_TILE)
    rows = program // across % down * MASK_TILE + local
    columns = program % across * MASK_TILE + local

    is_real = (rows < q_len)[:, None] & (columns < kv_len)[None, :]
    tile = mask + batch * mask_b + head * mask_h
    tile += (rows.to(tl.int64) * mask_m)[:, None] + (columns.to(tl.int64) * mask_n)[None, :]
    if MASK == BOOL_MASK:
        is_open = tl.load(tile, mask=is_real, other=0) != 0
        is_free = is_open
    else:
        bias = tl.load(tile, mask=is_real, other=float("-inf"))
        is_open = bias != float("-inf")
        is_free = bias == 0.0
    some = tl.max(tl.max(is_open.to(tl.int32), 1), 0)
    every = tl.min(tl.min((is_free | ~is_real).to(tl.int32), 1), 0)
    tl.store(states + program, (some + some * every).to(tl.uint8))


@triton.jit
def _lets_in(tiles, first_block, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    # Of BLOCKS_TOGETHER blocks of keys: the first key of each, whether some of BLOCK_M queries may
    # attend to some of it, and whether all may to all. tiles: the states, from one tile of queries
    # and of keys to the next, the first query, and the lengths.
    states, states_m, states_n, first_row, q_len, kv_len = tiles
    PART_COLUMNS: tl.constexpr = (BLOCK_N + MASK_TILE - 1) // MASK_TILE
    PARTS: tl.constexpr = (BLOCK_M + MASK_TILE - 1) // MASK_TILE * PART_COLUMNS
    keys = (first_block + tl.arange(0, BLOCKS_TOGETHER)) * BLOCK_N
    part = tl.arange(0, PARTS)
    row = (first_row // MASK_TILE + part // PART_COLUMNS)[:, None]
    column = (keys // MASK_TILE)[None, :] + (part % PART_COLUMNS)[:, None]
    is_real = (row * MASK_TILE < q_len) & (column * MASK_TILE < kv_len)
    state = tl.load(states + row * states_m + column * states_n, mask=is_real, other=0).to(tl.int32)
    is_live = tl.max(state, 0) != NOTHING
    is_whole = tl.min(tl.where(is_real, state, EVERYTHING), 0) == EVERYTHING
    return keys, is_live, is_whole


@triton.jit
def _ranges(tiles, end, whole_end, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    # Of the keys 0..end those outside of which the mask forbids everything, and of 0..whole_end the
    # first ones that it lets in for all queries; whole blocks, but for the last one.
    blocks = tl.cdiv(end, BLOCK_N)
    first = end
    stop = 0
    whole_first = whole_end
    for block in tl.range(0, blocks, BLOCKS_TOGETHER, num_stages=1):
        keys, is_live, is_whole = _lets_in(tiles, block, BLOCK_M, BLOCK_N)
        is_live = is_live & (keys < end)
        first = tl.minimum(first, tl.min(tl.where(is_live, keys, end), 0))
        stop = tl.maximum(stop, tl.max(tl.where(is_live, keys + BLOCK_N, 0), 0))
        is_whole = is_whole & (keys < whole_end)
        whole_first = tl.minimum(whole_first, tl.min(tl.where(is_whole, keys, whole_end), 0))
    whole_stop = whole_end
    for block in tl.range(0, blocks, BLOCKS_TOGETHER, num_stages=1):
        keys, _, is_whole = _lets_in(tiles, block, BLOCK_M, BLOCK_N)
        is_behind = (keys >= whole_first) & ~is_whole
        whole_stop = tl.minimum(whole_stop, tl.min(tl.where(is_behind, keys, whole_end), 0))
    # Multiples of BLOCK_N that the compiler knows as such: it reads several elements at once then.
    first = first // BLOCK_N * BLOCK_N
    whole_first = whole_first // BLOCK_N * BLOCK_N
    whole_stop = whole_stop // BLOCK_N * BLOCK_N
    return first, tl.minimum(stop, end), whole_first, whole_stop


@triton.jit
def _live_range(masked, start, stop, BLOCK_N: tl.constexpr, MASK: tl.constexpr):
    # The blocks of start..stop outside which the mask forbids everything, as keys: first, end.
    mask, mask_rows, row_is_real, mask_n = masked
    first_live = stop
    end_live = start
    for first in tl.range(start, stop, BLOCK_N):
        columns = first + tl.arange(0, BLOCK_N)
        tile = mask + mask_rows[:, None] + (columns.to(tl.int64) * mask_n)[None, :]
        is_real = row_is_real[:, None] & (columns < stop)[None, :]
        if MASK == BOOL_MASK:
            allowed = tl.load(tile, mask=is_real, other=0) != 0
        else:
            allowed = tl.load(tile, mask=is_real, other=float("-inf")) != float("-inf")
        some = tl.max(tl.max(allowed.to(tl.int32), 1), 0)
        first_live = tl.where((some != 0) & (first < first_live), first, first_live)
        end_live = tl.where(some != 0, first + BLOCK_N, end_live)
    return first_live, tl.minimum(end_live, stop)


@triton.jit
def _no_sums(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    # What _attend begins with.
    acc = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    row_max = tl.full([ROWS], LOWEST, dtype=tl.float32)
    return acc, row_max, tl.zeros([ROWS], dtype=tl.float32)


@triton.jit
def attention_prefill(
    q,
    k,
    v,
    mask,
    states,
    out,
    heads,
    q_len,
    kv_len,
    q_b,
    q_h,
    q_m,
    q_d,
    k_b,
    k_h,
    k_n,
    k_d,
    v_b,
    v_h,
    v_n,
    v_d,
    mask_b,
    mask_h,
    mask_m,
    mask_n,
    states_b,
    states_h,
    states_m,
    states_n,
    out_b,
    out_h,
    out_m,
    out_d,
    SCALE_LOG2: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    V_HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASK: tl.constexpr,
    EVEN_KV: tl.constexpr,
    ONE_SWEEP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    STAGES: tl.constexpr,
    WARPS: tl.constexpr,
):
    """Attention of BLOCK_M queries of one head; grid: tiles of queries × heads × batch, flat.

    ``states`` are those of ``mask_tiles``; they and the mask are not read with ``NO_MASK``.
    ``EVEN_KV``: ``kv_len`` is a multiple of ``BLOCK_N``. ``ONE_SWEEP``: look at columns and mask of
    all blocks, for half the code; only where some blocks need it (``CAUSAL``, not ``EVEN_KV``, a
    mask). ``WARPS`` repeats ``num_warps``: callers that keep compiled kernels by their arguments
    must see the difference.
    """
    # Dynamic sizes come as 64-bit numbers; lengths need no more than 32.
    q_len = tl.cast(q_len, tl.int32)
    kv_len = tl.cast(kv_len, tl.int32)
    tiles = tl.cdiv(q_len, BLOCK_M)
    pairs = tl.num_programs(0) // tiles
    program = tl.program_id(0)
    first_pair = program // (PAIRS_TOGETHER * tiles) * PAIRS_TOGETHER
    together = tl.minimum(pairs - first_pair, PAIRS_TOGETHER)
    program -= first_pair * tiles
    # With CAUSAL, and with most masks, the last tiles have most to do: they start first.
    tile = tiles - 1 - program // together
    pair = first_pair + program % together
    head = pair % heads
    batch = (pair // heads).to(tl.int64)
    kv_head = (head // GROUP).to(tl.int64)
    head = head.to(tl.int64)
    first_row = tile * BLOCK_M

    local = tl.arange(0, BLOCK_M)
    rows = first_row + local
    row_is_real = rows < q_len
    columns = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_D)
    v_depth = tl.arange(0, BLOCK_DV)

    q_tile = q + batch * q_b + head * q_h + first_row.to(tl.int64) * q_m
    q_tile += local[:, None] * q_m + depth[None, :] * q_d
    queries = tl.load(q_tile, mask=row_is_real[:, None] & (depth < HEAD_DIM)[None, :], other=0.0)
    k_tile = k + batch * k_b + kv_head * k_h + columns[:, None] * k_n + depth[None, :] * k_d
    v_tile = v + batch * v_b + kv_head * v_h + columns[:, None] * v_n + v_depth[None, :] * v_d
    mask_rows = rows.to(tl.int64) * mask_m + (batch * mask_b + head * mask_h)

    sums = _no_sums(BLOCK_M, BLOCK_DV)
    end = kv_len
    if CAUSAL:
        end = tl.minimum(kv_len, first_row + BLOCK_M)
    # The blocks of whole..whole_end need no look at columns and mask.
    whole_end = end
    if ONE_SWEEP:
        whole_end = 0
    elif CAUSAL:
        whole_end = tl.minimum(first_row + 1, end) // BLOCK_N * BLOCK_N
    elif not EVEN_KV:
        whole_end = end // BLOCK_N * BLOCK_N
    whole = 0
    first = whole_end
    hole = None
    if MASK != NO_MASK:
        states += batch * states_b + head * states_h
        tiles_of_mask = (states, states_m, states_n, first_row, q_len, kv_len)
        first, end, whole, whole_end = _ranges(tiles_of_mask, end, whole_end, BLOCK_M, BLOCK_N)
        if not ONE_SWEEP:
            hole = (whole, whole_end - whole)
    masked = (mask, mask_rows, row_is_real, mask_n)
    inputs = (queries, rows, (k_tile, k_n), (v_tile, v_n), masked, kv_len)
    if not ONE_SWEEP:
        sums = _attend(
            sums,
            inputs,
            whole,
            whole_end,
            None,
            SCALE_LOG2,
            HEAD_DIM,
            V_HEAD_DIM,
            EDGE=False,
            CAUSAL=False,
            MASK=NO_MASK,
            STAGES=STAGES,
        )
    if CAUSAL or not EVEN_KV or MASK != NO_MASK:
        sums = _attend(
            sums,
            inputs,
            first,
            end,
            hole,
            SCALE_LOG2,
            HEAD_DIM,
            V_HEAD_DIM,
            EDGE=not EVEN_KV,
            CAUSAL=CAUSAL,
            MASK=MASK,
            STAGES=STAGES,
        )
    acc, _, row_sum = sums
    result = acc / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]
    out_tile = out + batch * out_b + head * out_h + first_row.to(tl.int64) * out_m
    out_tile += local[:, None] * out_m + v_depth[None, :] * out_d
    tl.store(
        out_tile,
        result.to(out.dtype.element_ty),
        mask=row_is_real[:, None] & (v_depth < V_HEAD_DIM)[None, :],
    )


@triton.jit
def attention_decode(
    q,
    k,
    v,
    mask,
    out,
    log_sums,
    kv_heads,
    q_len,
    kv_len,
    q_b,
    q_h,
    q_m,
    q_d,
    k_b,
    k_h,
    k_n,
    k_d,
    v_b,
    v_h,
    v_n,
    v_d,
    mask_b,
    mask_h,
    mask_m,
    mask_n,
    out_b,
    out_h,
    out_m,
    out_d,
    SCALE_LOG2: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    V_HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASK: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    STAGES: tl.constexpr,
    WARPS: tl.constexpr,
):
    """Attention of the queries that share keys, over one part of the keys.

    Row ``r`` of the tiles is query ``r // GROUP`` of head ``r % GROUP`` of the group. Grid: (tiles
    of rows × kv_heads × batch, SPLITS). With one split ``out`` is the result; with more it is
    ``[SPLITS, batch, heads, q_len, V_HEAD_DIM]``, float32, contiguous, of which only ``out_d``, 1,
    is asked, and ``log_sums [SPLITS, batch, heads, q_len]``, float32, takes the base-2 logarithm of
    each row's sum of weights.
    """
    # Dynamic sizes come as 64-bit numbers; lengths need no more than 32.
    q_len = tl.cast(q_len, tl.int32)
    kv_len = tl.cast(kv_len, tl.int32)
    tiles = tl.cdiv(q_len * GROUP, BLOCK_M)
    program = tl.program_id(0)
    split = tl.program_id(1)
    tile = program % tiles
    kv_head = ((program // tiles) % kv_heads).to(tl.int64)
    batch = (program // tiles // kv_heads).to(tl.int64)

    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    row_is_real = rows < q_len * GROUP
    queries_at = rows // GROUP
    heads_at = kv_head * GROUP + rows % GROUP
    columns = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_D)
    v_depth = tl.arange(0, BLOCK_DV)

    q_rows = batch * q_b + heads_at * q_h + queries_at.to(tl.int64) * q_m
    k_tile = k + batch * k_b + kv_head * k_h + columns[:, None] * k_n + depth[None, :] * k_d
    v_tile = v + batch * v_b + kv_head * v_h + columns[:, None] * v_n + v_depth[None, :] * v_d
    mask_rows = batch * mask_b + heads_at * mask_h + queries_at.to(tl.int64) * mask_m
    masked = (mask, mask_rows, row_is_real, mask_n)

    blocks_per_split = tl.cdiv(tl.cdiv(kv_len, BLOCK_N), SPLITS)
    start = split * blocks_per_split * BLOCK_N
    stop = tl.minimum(start + blocks_per_split * BLOCK_N, kv_len)
    if CAUSAL:
        last_query = (tl.minimum((tile + 1) * BLOCK_M, q_len * GROUP) - 1) // GROUP
        stop = tl.minimum(stop, last_query + 1)
    if MASK != NO_MASK:
        start, stop = _live_range(masked, start, stop, BLOCK_N, MASK)

    if BLOCK_M == 1:
        # No matrix product: every column of the tile keeps a softmax of its own, and the columns
        # meet once, after the sweep.
        query = tl.load(
            q + q_rows[:, None] + depth[None, :] * q_d,
            mask=(depth < HEAD_DIM)[None, :],
            other=0.0,
        ).to(tl.float32)
        query *= SCALE_LOG2
        sums = tl.zeros([BLOCK_N, BLOCK_DV], dtype=tl.float32)
        column_max = tl.full([BLOCK_N], float("-inf"), dtype=tl.float32)
        column_sum = tl.zeros([BLOCK_N], dtype=tl.float32)
        mask_row = tl.sum(mask_rows, 0)
        for first in tl.range(start, stop, BLOCK_N, num_stages=STAGES):
            is_real = first + columns < stop
            keys = tl.load(
                k_tile + tl.cast(first, tl.int64) * k_n,
                mask=is_real[:, None] & (depth < HEAD_DIM)[None, :],
                other=0.0,
            )
            values = tl.load(
                v_tile + tl.cast(first, tl.int64) * v_n,
                mask=is_real[:, None] & (v_depth < V_HEAD_DIM)[None, :],
                other=0.0,
            )
            scores = tl.sum(keys.to(tl.float32) * query, 1)
            mask_at = mask + mask_row + (first + columns).to(tl.int64) * mask_n
            if MASK == BOOL_MASK:
                allowed = tl.load(mask_at, mask=is_real, other=0) != 0
                scores = tl.where(allowed, scores, float("-inf"))
            elif MASK == ADDED_MASK:
                bias = tl.load(mask_at, mask=is_real, other=float("-inf"))
                scores += _scaled_bias(bias)
            scores = tl.where(is_real, scores, float("-inf"))
            new_max = tl.maximum(column_max, scores)
            origin = tl.where(new_max == float("-inf"), 0.0, new_max)
            weights = tl.exp2(scores - origin)
            shrink = tl.exp2(column_max - origin)
            column_sum = column_sum * shrink + weights
            sums = sums * shrink[:, None] + values.to(tl.float32) * weights[:, None]
            column_max = new_max
        largest = tl.max(column_max, 0)
        origin = tl.where(largest == float("-inf"), 0.0, largest)
        share = tl.exp2(column_max - origin)
        row_sum = tl.sum((column_sum * share)[None, :], 1)
        acc = tl.sum(sums * share[:, None], 0, keep_dims=True)
        row_max = tl.max(column_max[None, :], 1)
    else:
        queries = tl.load(
            q + q_rows[:, None] + depth[None, :] * q_d,
            mask=row_is_real[:, None] & (depth < HEAD_DIM)[None, :],
            other=0.0,
        )
        acc, row_max, row_sum = _attend(
            _no_sums(BLOCK_M, BLOCK_DV),
            (queries, queries_at, (k_tile, k_n), (v_tile, v_n), masked, kv_len),
            start,
            stop,
            None,
            SCALE_LOG2,
            HEAD_DIM,
            V_HEAD_DIM,
            EDGE=True,
            CAUSAL=CAUSAL,
            MASK=MASK,
            STAGES=STAGES,
        )

    result = acc / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]
    if SPLITS > 1:
        part_rows = tl.num_programs(0) // tiles * GROUP * q_len
        at = (batch * kv_heads * GROUP + heads_at) * q_len + queries_at
        at += tl.cast(split, tl.int64) * part_rows
        # log2(0) is -inf, which takes a part without keys out of the sum.
        tl.store(log_sums + at, row_max + tl.log2(row_sum), mask=row_is_real)
        out_rows = at * V_HEAD_DIM
    else:
        out_rows = batch * out_b + heads_at * out_h + queries_at.to(tl.int64) * out_m
    tl.store(
        out + out_rows[:, None] + v_depth[None, :] * out_d,
        result.to(out.dtype.element_ty),
        mask=row_is_real[:, None] & (v_depth < V_HEAD_DIM)[None, :],
    )


@triton.jit
def attention_combine(
    parts,
    log_sums,
    out,
    heads,
    q_len,
    out_b,
    out_h,
    out_m,
    out_d,
    V_HEAD_DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    WARPS: tl.constexpr,
):
    """Weigh the parts of ``attention_decode`` by their sums; grid: (batch * heads * q_len, tiles).

    A tile is BLOCK_DV elements of the head; BLOCK_SPLITS is a power of two, at least SPLITS.
    """
    row = tl.program_id(0)
    rows = tl.num_programs(0)
    depth = tl.program_id(1) * BLOCK_DV + tl.arange(0, BLOCK_DV)
    splits = tl.arange(0, BLOCK_SPLITS)
    at = splits.to(tl.int64) * rows + row
    log_sum = tl.load(log_sums + at, mask=splits < SPLITS, other=float("-inf"))
    largest = tl.max(log_sum, 0)
    weights = tl.exp2(log_sum - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(weights, 0)
    part = tl.load(
        parts + at[:, None] * V_HEAD_DIM + depth[None, :],
        mask=(splits < SPLITS)[:, None] & (depth < V_HEAD_DIM)[None, :],
        other=0.0,
    )
    result = tl.sum(part * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    query = tl.cast(row % q_len, tl.int64)
    head = tl.cast((row // q_len) % heads, tl.int64)
    batch = tl.cast(row // q_len // heads, tl.int64)
    tl.store(
        out + batch * out_b + head * out_h + query * out_m + depth * out_d,
        result.to(out.dtype.element_ty),
        mask=depth < V_HEAD_DIM,
    )
