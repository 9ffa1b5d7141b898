"""Offer Inductor a kernel for matrix products of one to a few rows.

Such a product reads a whole weight matrix for hardly any arithmetic: what counts is that all of the
GPU's multiprocessors load at once. Templates for tensor cores waste 15 of 16 rows and have too few
blocks; a library splits the sum and needs a second kernel. The template here gives every block a
few columns, whole rows of the weight in memory order, and no tensor cores.

Where Inductor offers templates, it is one more choice. Where it offers the library alone (by
default it does), the cost model decides: a program whose products are all generated does not open
the library, which takes 115 ms and 235 MB of the host's memory.

Patched: ``AlgorithmSelectorCache.__call__``, which gets one more choice (and the same epilogues as
Inductor's own templates), and ``post_grad.should_prefer_unfused_addmm``, so that a product is not
put together again with what is added to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from aoti_plugins.cuda.target import CudaTarget
from aoti_plugins.cuda.tuning import cost_model
from aoti_plugins.cuda.tuning.cost_model import Product, Tile
from aoti_plugins.lowering.inductor.patching import patch, replaced

TEMPLATE_NAME = "aoti_few_rows"

# With more rows the arithmetic outside the tensor cores takes longer than the loads.
MOST_ROWS = 4

_LEAST_DEPTH = 32

# Columns and depth of a tile, and warps: those that were fastest for some size on an H100, and two
# for sums shorter than any that was measured there.
_CONFIGS = (
    (1, 1024, 1),
    (2, 1024, 2),
    (2, 512, 1),
    (4, 256, 1),
    (2, 256, 1),
    (2, 1024, 4),
    (1, 512, 1),
    (4, 1024, 4),
    (4, 64, 1),
    (2, 128, 1),
)

ALL = len(_CONFIGS)
"""For ``most``: every configuration there is."""

_SOURCE = r"""
{{def_kernel("A", "B")}}
    M = {{size("A", 0)}}
    N = {{size("B", 1)}}
    K = {{size("A", 1)}}
    stride_am = {{stride("A", 0)}}
    stride_ak = {{stride("A", 1)}}
    stride_bk = {{stride("B", 0)}}
    stride_bn = {{stride("B", 1)}}
    rm = tl.arange(0, BLOCK_M)
    rn = tl.program_id(0).to(INDEX_DTYPE) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        rk = start + tl.arange(0, BLOCK_K)
        a = tl.load(
            A + (rm[:, None] * stride_am + rk[None, :] * stride_ak),
            mask=(rm[:, None] < M) & (rk[None, :] < K),
            other=0.0,
        ).to(tl.float32)
        b = tl.load(
            B + (rn[:, None] * stride_bn + rk[None, :] * stride_bk),
            mask=(rn[:, None] < N) & (rk[None, :] < K),
            other=0.0,
            eviction_policy="evict_first",
        ).to(tl.float32)
        total += a[:, None, :] * b[None, :, :]
    acc = tl.sum(total, axis=2)
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N)
    {{store_output(("idx_m", "idx_n"), "acc", "mask", val_shape=("BLOCK_M", "BLOCK_N"))}}
"""


@patch(
    "torch._inductor.select_algorithm.AlgorithmSelectorCache.__call__("
    "self, name, choices, input_nodes, layout)",
    "torch._inductor.fx_passes.post_grad.should_prefer_unfused_addmm(match)",
    why="Products of a few rows waste tensor cores, or need a library.",
    until="Inductor brings such a template",
)
def few_rows_choice(target: CudaTarget, most: int = 1) -> Iterator[None]:
    """Offer the kernel wherever a product has at most ``MOST_ROWS`` rows.

    Args:
        target: the GPU.
        most: configurations to offer, the best by the cost model first; several only make sense
            where they are measured.
    """
    from torch._inductor.fx_passes import post_grad
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    def call(
        original: Any,
        self: Any,
        name: str,
        choices: list[Any],
        input_nodes: Any,
        layout: Any,
        *rest: Any,
        **more: Any,
    ) -> Any:
        product = _few_rows(name, input_nodes, layout)
        if product is not None:
            configs = _best_configs(target, product)
            if _has_template(choices):
                _append(choices, input_nodes, layout, configs[:most])
            elif _beats_library(target, product, configs[0]):
                ours: list[Any] = []
                _append(ours, input_nodes, layout, configs[:1])
                choices[:] = ours or choices
        return original(self, name, choices, input_nodes, layout, *rest, **more)

    def stays_separate(original: Any, match: Any) -> bool:
        shape = match.args[0].meta["val"].shape
        return has_few_rows(shape) or bool(original(match))

    with (
        replaced(AlgorithmSelectorCache, "__call__", call),
        replaced(post_grad, "should_prefer_unfused_addmm", stays_separate),
    ):
        yield


def has_few_rows(shape: Sequence[Any]) -> bool:
    """Whether the kernel is meant for a first factor of this shape, ``[..., rows, depth]``."""
    *rows, depth = shape
    static = all(isinstance(size, int) for size in shape)
    return static and math.prod(rows) <= MOST_ROWS and depth >= _LEAST_DEPTH


def _has_template(choices: Sequence[Any]) -> bool:
    from torch._inductor.select_algorithm import TritonTemplateCaller

    return any(isinstance(one, TritonTemplateCaller) for one in choices)


def _beats_library(target: CudaTarget, product: Product, config: tuple[Tile, int]) -> bool:
    """Whether the kernel takes no longer than a library and what cannot be fused into its call."""
    library = cost_model.library_time(target, product) + cost_model.CONSTANTS.unfused
    return cost_model.few_rows_time(target, product, *config) <= library


def _few_rows(name: str, input_nodes: Sequence[Any], layout: Any) -> Product | None:
    """The product, if the template can compute it and may be faster."""
    if name != "mm":
        return None
    sizes = (*input_nodes[0].get_size(), *input_nodes[1].get_size(), *layout.size)
    if len(sizes) != 6 or not all(_is_number(size) for size in sizes):
        return None
    rows, depth, _, columns = map(int, sizes[:4])
    dtype = input_nodes[0].get_dtype()
    contiguous = input_nodes[1].get_stride()[0] == 1 and input_nodes[0].get_stride()[1] == 1
    if not has_few_rows((rows, depth)) or not contiguous:
        return None
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return None
    name_of_dtype = str(dtype).removeprefix("torch.")
    return Product(rows, columns, depth, 1, dtype.itemsize, name_of_dtype)


def _is_number(size: Any) -> bool:
    return isinstance(size, int) or bool(getattr(size, "is_number", False))


def _best_configs(target: CudaTarget, product: Product) -> list[tuple[Tile, int]]:
    rows = 1 << (product.m - 1).bit_length()
    tiles = [(Tile(rows, columns, depth, 1), warps) for columns, depth, warps in _CONFIGS]
    return sorted(tiles, key=lambda one: cost_model.few_rows_time(target, product, *one))


def _append(
    choices: list[Any], input_nodes: Any, layout: Any, configs: Sequence[tuple[Tile, int]]
) -> None:
    for tile, num_warps in configs:
        _template().maybe_append_choice(
            choices,
            input_nodes=tuple(input_nodes),
            layout=layout,
            num_stages=3,
            num_warps=num_warps,
            BLOCK_M=tile.block_m,
            BLOCK_N=tile.block_n,
            BLOCK_K=tile.block_k,
        )


@functools.cache
def _template() -> Any:
    from torch._inductor.select_algorithm import SymbolicGridFn, TritonTemplate

    def grid(m: Any, n: Any, meta: Any, *, cdiv: Callable[..., Any]) -> tuple[Any, int, int]:
        del m
        return cdiv(n, meta["BLOCK_N"]), 1, 1

    known = TritonTemplate.all_templates.get(TEMPLATE_NAME)
    return known or TritonTemplate(name=TEMPLATE_NAME, grid=SymbolicGridFn(grid), source=_SOURCE)
