"""Decompositions of ops that Inductor does not generate and the runtimes have no kernels for.

They are written in plain PyTorch, so that Inductor makes kernels of them. A decomposition returns
``NotImplemented`` where Inductor does well by itself. All of them hold for dynamic shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from aoti_plugins.lowering.decompositions import (
    adaptive_pool,
    avg_pool,
    embedding_bag,
    index_put,
    median,
    random_numbers,
)

_aten = torch.ops.aten

Table = dict[OpOverload, Callable[..., Any]]

DECOMPOSITIONS: Table = {
    _aten._adaptive_avg_pool2d.default: adaptive_pool.adaptive_avg_pool2d,
    _aten._adaptive_avg_pool3d.default: adaptive_pool.adaptive_avg_pool3d,
    _aten.adaptive_max_pool2d.default: adaptive_pool.adaptive_max_pool2d,
    _aten.adaptive_max_pool3d.default: adaptive_pool.adaptive_max_pool3d,
    _aten.avg_pool2d.default: avg_pool.avg_pool2d,
    _aten.avg_pool3d.default: avg_pool.avg_pool3d,
    _aten._embedding_bag.default: embedding_bag.embedding_bag,
    _aten._embedding_bag_forward_only.default: embedding_bag.embedding_bag,
    _aten.embedding_bag.default: embedding_bag.composite_embedding_bag,
    _aten.embedding_bag.padding_idx: embedding_bag.composite_embedding_bag,
    _aten.median.default: median.median,
    _aten.median.dim: median.median_dim,
    _aten.nanmedian.default: median.nanmedian,
    _aten.nanmedian.dim: median.nanmedian_dim,
    _aten.bernoulli.default: random_numbers.bernoulli,
    _aten.bernoulli.p: random_numbers.bernoulli_of,
    _aten.bernoulli.Tensor: random_numbers.bernoulli_of,
    _aten.cauchy.default: random_numbers.cauchy,
    _aten.exponential.default: random_numbers.exponential,
    _aten.geometric.default: random_numbers.geometric,
    _aten.log_normal.default: random_numbers.log_normal,
    _aten.multinomial.default: random_numbers.multinomial,
    _aten.normal.Tensor_Tensor: random_numbers.normal,
    _aten.normal.Tensor_float: random_numbers.normal,
    _aten.normal.float_Tensor: random_numbers.normal,
    _aten.normal.float_float: random_numbers.normal_of_size,
    _aten.normal_functional.default: random_numbers.normal_functional,
    _aten.rand_like.default: random_numbers.rand_like,
    _aten.randint.default: random_numbers.randint,
    _aten.randint.low: random_numbers.randint_low,
    _aten.randint_like.default: random_numbers.randint_like,
    _aten.randint_like.low_dtype: random_numbers.randint_like_low,
    _aten.randn_like.default: random_numbers.randn_like,
    _aten.randperm.default: random_numbers.randperm,
    _aten.rrelu.default: random_numbers.rrelu,
    _aten.uniform.default: random_numbers.uniform,
}
"""For every device."""

CUDA_DECOMPOSITIONS: Table = DECOMPOSITIONS | {
    _aten.index_copy.default: index_put.index_copy,
    _aten.index_put.default: index_put.index_put,
}
"""For GPUs, where threads that write to one place race."""
