"""From tensors to kernel launches.

Everything here runs while a graph is traced, too: sizes and strides may be symbolic, and only what
a kernel takes as ``constexpr`` becomes a plain number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aoti_plugins.cuda.attention.config import (
    Config,
    DecodeConfig,
    PrefillConfig,
    Problem,
    block_width,
    choose,
)
from aoti_plugins.cuda.attention.target import current_target
from aoti_plugins.cuda.triton_kernels import wrapped

Size: TypeAlias = "int | torch.SymInt"

MASK_TILE = 64
"""Queries and keys of a tile of a mask; must match kernels.py."""

_LOG2_E = math.log2(math.e)
# Elements of the tile in which parts are put together.
_COMBINE_ELEMENTS = 2048
# A dynamic size is judged by its upper bound if that is one somebody chose.
_LARGEST_CHOSEN_BOUND = 1 << 20


@dataclasses.dataclass(frozen=True)
class Call:
    """One attention, with its tensors seen as four-dimensional.

    The attributes are arguments of the operator ``aoti_plugins::attention``, which ``op`` explains.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    causal: bool
    scale: float
    tiles: torch.Tensor | None = None

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        """Batch, heads, queries and elements of the result."""
        q, k, v = (_four(tensor.shape, 1) for tensor in (self.query, self.key, self.value))
        batch = _broadcast(_broadcast(q[0], k[0]), v[0])
        return batch, q[1], q[2], v[3]

    @property
    def kv_heads(self) -> Size:
        """Heads of key and value."""
        return _broadcast(_four(self.key.shape, 1)[1], _four(self.value.shape, 1)[1])

    @property
    def group(self) -> int:
        """Query heads for each head of key and value."""
        heads, kv_heads = self.sizes[1], self.kv_heads
        if isinstance(heads, int) and isinstance(kv_heads, int):
            return heads // kv_heads
        return 1

    def problem(self) -> Problem:
        """The sizes as the choice of a configuration wants them."""
        batch, heads, q_len, v_head_dim = self.sizes
        return Problem(
            batch=_likely(batch),
            heads=_likely(heads),
            kv_heads=_likely(heads) // self.group,
            q_len=_likely(q_len),
            kv_len=_likely(self.key.shape[-2]),
            head_dim=int(self.query.shape[-1]),
            v_head_dim=int(v_head_dim),
            itemsize=self.query.itemsize,
            mask_itemsize=0 if self.mask is None else self.mask.itemsize,
            q_len_is_static=isinstance(q_len, int),
            attends_to_itself=statically_known_true(q_len == self.key.shape[-2]),
        )


def output_like(call: Call, order: Sequence[int]) -> torch.Tensor:
    """An uninitialised result.

    Args:
        call: the attention.
        order: its dimensions from the one of the largest stride to the one of stride 1.
    """
    sizes = list(call.sizes)[4 - call.query.dim() :]
    return _uninitialised(sizes, order, call.query.dtype, call.query.device)


def mask_tiles(mask: torch.Tensor, times: Size = 1) -> torch.Tensor:
    """What each tile of 64 × 64 of a mask lets in: nothing (0), something (1), everything (2).

    Args:
        mask: 2 to 4 dimensions, the last two queries and keys.
        times: 1, or 0 where nothing is to be found out.

    Returns:
        As many dimensions, the last two in tiles; uint8.
    """
    from aoti_plugins.cuda.attention import kernels

    tiles = tiles_like(mask)
    if any(isinstance(size, int) and size == 0 for size in mask.shape):
        return tiles
    batch, heads, q_len, kv_len = _four(mask.shape, 1)
    down, across = tiles.shape[-2:]
    wrapped(kernels.mask_tiles)[(batch * heads * down * across * times,)](
        mask,
        tiles,
        heads,
        q_len,
        kv_len,
        *_strides(mask),
        MASK=_kind(mask),
        WARPS=4,
        num_warps=4,
    )
    return tiles


def tiles_like(mask: torch.Tensor) -> torch.Tensor:
    """Uninitialised tiles of a mask."""
    *others, q_len, kv_len = mask.shape
    sizes = [*others, _cdiv(q_len, MASK_TILE), _cdiv(kv_len, MASK_TILE)]
    return _uninitialised(sizes, range(len(sizes)), torch.uint8, mask.device)


def _uninitialised(
    sizes: Sequence[Size], order: Sequence[int], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """A dense tensor.

    ``torch.empty`` would take no size for 0 in its strides, and Inductor copies what it makes.
    """
    strides: list[Size] = [1] * len(sizes)
    step: Size = 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * sizes[dim]
    return torch.empty_strided(sizes, strides, dtype=dtype, device=device)


def run(call: Call, out: torch.Tensor, config: Config | None = None) -> None:
    """Compute an attention with the kernels, on the GPU or into a graph that is traced.

    Args:
        call: the attention.
        out: the result, from ``output_like``; written.
        config: how to; by default ``choose`` decides for the current target.
    """
    if any(isinstance(size, int) and size == 0 for size in out.shape):
        return
    config = config or choose(call.problem(), current_target())
    if isinstance(config, PrefillConfig):
        _prefill(call, out, config)
    elif isinstance(config, DecodeConfig):
        _decode(call, out, config)
    else:
        few = _is_at_most(call.sizes[2], config.most_few)
        _decode(call, out, config.few, few)
        _prefill(call, out, config.many, 1 - few)


def _is_at_most(size: Size, most: int) -> Size:
    """1 or 0, as arithmetic that generated code can do.

    PyTorch takes no dynamic size for 0: of the larger of it and 1 only the size would be left.
    """
    return torch.sym_min(1, (most + 1) // (size + 1))


def _prefill(call: Call, out: torch.Tensor, config: PrefillConfig, times: Size = 1) -> None:
    """Launch on a grid that is ``times``, 1 or 0, as large; an empty one launches nothing."""
    from aoti_plugins.cuda.attention import kernels

    batch, heads, q_len, _ = call.sizes
    kv_len = call.key.shape[-2]
    is_even = isinstance(kv_len, int) and kv_len % config.block_n == 0
    grid = (_cdiv(q_len, config.block_m) * heads * batch * times,)
    tiles = None
    if call.mask is not None:
        tiles = mask_tiles(call.mask, times) if call.tiles is None else call.tiles
    wrapped(kernels.attention_prefill)[grid](
        *_pointers(call, out),
        out if tiles is None else tiles,
        out,
        heads,
        q_len,
        kv_len,
        *_all_strides(call),
        *_strides(tiles),
        *_strides(out),
        EVEN_KV=is_even,
        # Without tensor cores a sweep is long code, and looking at columns is little of its time.
        ONE_SWEEP=call.query.itemsize == 4 and (call.causal or not is_even or tiles is not None),
        **_constants(call, config),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )


def _decode(call: Call, out: torch.Tensor, config: DecodeConfig, times: Size = 1) -> None:
    """Launch on a grid that is ``times``, 1 or 0, as large, and make room for as many parts."""
    from aoti_plugins.cuda.attention import kernels

    batch, heads, q_len, v_head_dim = call.sizes
    if config.splits > 1:
        shape = (config.splits, batch, heads, q_len * times)
        parts = torch.empty((*shape, v_head_dim), dtype=torch.float32, device=out.device)
        log_sums = torch.empty(shape, dtype=torch.float32, device=out.device)
        strides: Sequence[Size] = (0, 0, 0, 1)
    else:
        parts, log_sums, strides = out, out, _strides(out)
    tiles = _cdiv(q_len * call.group, config.block_m)
    grid = (tiles * (heads // call.group) * batch * times, config.splits)
    wrapped(kernels.attention_decode)[grid](
        *_pointers(call, out),
        parts,
        log_sums,
        heads // call.group,
        q_len,
        call.key.shape[-2],
        *_all_strides(call),
        *strides,
        SPLITS=config.splits,
        **_constants(call, config),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    if config.splits > 1:
        _combine(call, parts, log_sums, out)


def _combine(call: Call, parts: torch.Tensor, log_sums: torch.Tensor, out: torch.Tensor) -> None:
    from aoti_plugins.cuda.attention import kernels

    splits, batch, heads, q_len, v_head_dim = parts.shape
    block_splits = 1 << (int(splits) - 1).bit_length()
    block_dv = min(block_width(int(v_head_dim)), max(16, _COMBINE_ELEMENTS // block_splits))
    wrapped(kernels.attention_combine)[(batch * heads * q_len, _cdiv(v_head_dim, block_dv))](
        parts,
        log_sums,
        out,
        heads,
        q_len,
        *_strides(out),
        V_HEAD_DIM=int(v_head_dim),
        SPLITS=int(splits),
        BLOCK_SPLITS=block_splits,
        BLOCK_DV=block_dv,
        WARPS=2,
        num_warps=2,
    )


def _pointers(call: Call, out: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The inputs; a mask that is not there is not read, whatever stands for it."""
    return call.query, call.key, call.value, out if call.mask is None else call.mask


def _all_strides(call: Call) -> tuple[Size, ...]:
    inputs = (call.query, call.key, call.value, call.mask)
    return tuple(stride for one in inputs for stride in _strides(one))


def _constants(call: Call, config: PrefillConfig | DecodeConfig) -> dict[str, Any]:
    width, v_width = call.problem().widths
    return {
        "SCALE_LOG2": call.scale * _LOG2_E,
        "GROUP": call.group,
        "HEAD_DIM": int(call.query.shape[-1]),
        "V_HEAD_DIM": int(call.value.shape[-1]),
        "CAUSAL": call.causal,
        "MASK": _kind(call.mask),
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "BLOCK_D": width,
        "BLOCK_DV": v_width,
        "STAGES": config.num_stages,
        "WARPS": config.num_warps,
    }


def _kind(mask: torch.Tensor | None) -> int:
    """What the kernels call ``MASK``."""
    return 0 if mask is None else 1 if mask.dtype == torch.bool else 2


def _strides(tensor: torch.Tensor | None) -> tuple[Size, ...]:
    """Four strides, 0 for a dimension that is missing or broadcast; of no tensor all are."""
    if tensor is None:
        return (0, 0, 0, 0)
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return _four([0 if _is_one(size) else stride for size, stride in pairs], 0)


def _four(values: Sequence[Size], missing: int) -> tuple[Size, ...]:
    return (*[missing] * (4 - len(values)), *values)


def _broadcast(one: Size, other: Size) -> Size:
    return other if _is_one(one) else one


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def _cdiv(size: Size, block: int) -> Size:
    return (size + block - 1) // block


def _likely(size: Size) -> int:
    """A number to choose a configuration by."""
    if isinstance(size, int):
        return size
    upper = size.node.shape_env.bound_sympy(size.node.expr).upper
    if upper.is_Integer and int(upper) <= _LARGEST_CHOSEN_BOUND:
        return int(upper)
    return int(size.node.hint) if size.node.has_hint() else _LARGEST_CHOSEN_BOUND
