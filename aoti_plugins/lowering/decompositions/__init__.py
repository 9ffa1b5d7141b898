"""Decompositions of ops that Inductor does not generate and the runtimes have no kernels for.

They are written in plain PyTorch, so that Inductor makes kernels of them. A decomposition returns
``NotImplemented`` where Inductor does well by itself. All of them hold for dynamic shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import executorch.exir.passes.dim_order_ops_registry  # noqa: F401  it declares ExecuTorch's copies
import torch
from torch._ops import OpOverload
from torch.fx import Node

from aoti_plugins.lowering.decompositions import (
    adaptive_pool,
    arithmetic,
    attention,
    avg_pool,
    chosen_products,
    complex_numbers,
    cosine_windows,
    data_sizes,
    distances,
    divisors,
    drawn_token,
    embedding_bag,
    fourier,
    fourier_kernels,
    fractional_pool,
    grid_sample,
    histograms,
    index_dim,
    index_put,
    int4,
    median,
    narrow_sums,
    older_versions,
    order_statistics,
    products,
    quantised_embeddings,
    random_numbers,
    recurrent,
    reflections,
    row_groups,
    scans,
    search,
    segments,
    selection,
    small_weights,
    special_functions,
    triangular,
)
from aoti_plugins.lowering.inductor.versions import torch_version
from aoti_plugins.lowering.small_weights import packed

_aten = torch.ops.aten

Table = dict[OpOverload, Callable[..., Any]]

DECOMPOSITIONS: Table = {
    **complex_numbers.MOVES,
    _aten._conj.default: complex_numbers.conjugate,
    _aten._conj_copy.default: complex_numbers.conjugate,
    _aten.complex.default: complex_numbers.complex_of,
    _aten._adaptive_avg_pool2d.default: adaptive_pool.adaptive_avg_pool2d,
    _aten._adaptive_avg_pool3d.default: adaptive_pool.adaptive_avg_pool3d,
    _aten.adaptive_max_pool2d.default: adaptive_pool.adaptive_max_pool2d,
    _aten.adaptive_max_pool3d.default: adaptive_pool.adaptive_max_pool3d,
    _aten.avg_pool2d.default: avg_pool.avg_pool2d,
    _aten.avg_pool3d.default: avg_pool.avg_pool3d,
    _aten.embedding_bag.default: embedding_bag.composite_embedding_bag,
    _aten.embedding_bag.padding_idx: embedding_bag.composite_embedding_bag,
    _aten._efficient_attention_forward.default: attention.efficient_attention_forward,
    _aten._flash_attention_forward.default: attention.flash_attention_forward,
    _aten._scaled_dot_product_attention_math_for_mps.default: attention.math_for_mps,
    _aten._scaled_dot_product_cudnn_attention.default: attention.cudnn_attention,
    _aten._scaled_dot_product_efficient_attention.default: attention.efficient_attention,
    _aten._scaled_dot_product_flash_attention.default: attention.flash_attention,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: attention.flash_attention_for_cpu,
    _aten._scaled_dot_product_fused_attention_overrideable.default: attention.fused_attention,
    _aten._to_copy.default: complex_numbers.to_copy,
    torch.ops.dim_order_ops._to_dim_order_copy.default: complex_numbers.to_copy,
    _aten.abs.default: complex_numbers.absolute,
    _aten.add.Scalar: arithmetic.add_number,
    _aten.pow.Tensor_Tensor: arithmetic.power,
    _aten.add.Tensor: complex_numbers.add,
    _aten.angle.default: complex_numbers.angle,
    _aten.mul.Tensor: complex_numbers.multiply,
    _aten.polar.default: complex_numbers.polar,
    _aten.sub.Tensor: complex_numbers.subtract,
    _aten.view_as_complex.default: complex_numbers.view_as_complex,
    _aten.index.Tensor: data_sizes.index,
    _aten.index_add.default: index_dim.index_add,
    _aten.index_copy.default: index_dim.index_copy,
    _aten.index_fill.int_Scalar: index_dim.index_fill,
    _aten.index_fill.int_Tensor: index_dim.index_fill,
    _aten.index_select.default: index_dim.index_select,
    _aten.masked_select.default: data_sizes.masked_select,
    _aten.nonzero.default: data_sizes.nonzero,
    _aten.repeat_interleave.Tensor: data_sizes.repeat_interleave,
    _aten.repeat_interleave.self_Tensor: data_sizes.composite_repeat_interleave,
    _aten._fft_c2r.default: fourier.fft_c2r,
    _aten._cdist_forward.default: distances.cdist,
    _aten._pdist_forward.default: distances.pdist,
    _aten.gcd.default: divisors.gcd,
    _aten.fractional_max_pool3d.default: fractional_pool.fractional_max_pool3d,
    _aten.all.default: arithmetic.all_of,
    _aten.all.dim: arithmetic.all_of,
    _aten.all.dims: arithmetic.all_of,
    _aten.any.default: arithmetic.any_of,
    _aten.any.dim: arithmetic.any_of,
    _aten.any.dims: arithmetic.any_of,
    _aten.argmax.default: order_statistics.argmax,
    _aten.argmin.default: order_statistics.argmin,
    _aten.cumsum.default: scans.cumsum,
    _aten.hann_window.default: cosine_windows.hann_window,
    _aten.hann_window.periodic: cosine_windows.hann_window,
    _aten.grid_sampler_3d.default: grid_sample.grid_sampler_3d,
    _aten._thnn_fused_lstm_cell.default: recurrent.lstm_cell,
    **recurrent.LAYERS,
    _aten.segment_reduce.default: segments.segment_reduce,
    _aten.index_reduce.default: selection.index_reduce,
    _aten.masked_scatter.default: selection.masked_scatter,
    _aten.nonzero_static.default: selection.nonzero_static,
    _aten.cholesky_inverse.default: triangular.cholesky_inverse,
    _aten.cholesky_solve.default: triangular.cholesky_solve,
    _aten.geqrf.default: reflections.geqrf,
    _aten.lu_unpack.default: triangular.lu_unpack,
    _aten.ormqr.default: triangular.ormqr,
    _aten.triangular_solve.default: triangular.triangular_solve,
    _aten._grouped_mm.default: products.grouped_mm,
    _aten._scaled_grouped_mm.default: products.scaled_grouped_mm,
    _aten._trilinear.default: products.trilinear,
    _aten._weight_int4pack_mm.default: int4.mm_for_tensor_cores,
    _aten._weight_int8pack_mm.default: products.weight_int8pack_mm,
    _aten.addbmm.default: products.addbmm,
    _aten.bilinear.default: products.bilinear,
    _aten.mm.dtype: products.mm_of_dtype,
    _aten.histc.default: histograms.histc,
    _aten.histogram.bin_ct: histograms.histogram,
    _aten._histogramdd_from_bin_cts.default: histograms.histogramdd,
    _aten.kthvalue.default: order_statistics.kthvalue,
    _aten.median.default: median.median,
    _aten.median.dim: median.median_dim,
    _aten.nanmedian.default: median.nanmedian,
    _aten.nanmedian.dim: median.nanmedian_dim,
    _aten.bucketize.Scalar: search.bucketize_number,
    _aten.bucketize.Tensor: search.bucketize,
    _aten.searchsorted.Scalar: search.searchsorted_number,
    _aten.mode.default: order_statistics.mode,
    _aten.bernoulli.default: random_numbers.bernoulli,
    _aten.bernoulli.p: random_numbers.bernoulli,
    _aten.bernoulli.Tensor: random_numbers.bernoulli,
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
    torch.ops.aoti_plugins.packed_weight.default: packed.values,
}
"""For every device."""

if torch_version() < (2, 13):
    DECOMPOSITIONS |= {
        _aten.flip.default: older_versions.flip,
        _aten.linalg_vector_norm.default: older_versions.vector_norm,
    }

_NOT_FOR_NVIDIA: Table = {
    # Inductor generates these for NVIDIA GPUs.
    _aten.cummax.default: scans.cummax,
    _aten.cummin.default: scans.cummin,
    _aten.logcumsumexp.default: scans.logcumsumexp,
    _aten.searchsorted.Tensor: search.searchsorted,
    # There is a Triton kernel for these.
    _aten._embedding_bag.default: embedding_bag.embedding_bag,
    _aten._embedding_bag_forward_only.default: embedding_bag.embedding_bag,
    # The runtime for NVIDIA GPUs has libraries or kernels for these.
    _aten._addmm_activation.default: products.addmm_activation,
    _aten._int_mm.default: products.int_mm,
    _aten._scaled_mm.default: products.scaled_mm,
    torch.ops.aoti_plugins.drawn_token.default: drawn_token.composed_drawn_token,
}

_TRANSFORMS: Table = {
    _aten._fft_c2c.default: fourier.fft_c2c,
    _aten._fft_r2c.default: fourier.fft_r2c,
}
"""The runtimes for GPUs have kernels for them, of some forms."""

_TRANSFORMS_BY_KERNELS: Table = fourier_kernels.composites() | {
    _aten._fft_c2c.default: fourier_kernels.fft_c2c,
    _aten._fft_c2r.default: fourier_kernels.fft_c2r,
    _aten._fft_r2c.default: fourier_kernels.fft_r2c,
}
"""The other forms, in terms of those."""

_EIGHT_BITS: Table = {_aten.cat.default: arithmetic.cat}
"""Inductor generates no code for these on CPUs."""

CPU_DECOMPOSITIONS: Table = DECOMPOSITIONS | _NOT_FOR_NVIDIA | _TRANSFORMS | _EIGHT_BITS

_WRITES: Table = {
    _aten.index_copy.default: index_dim.index_copy_on_gpu,
    _aten.index_put.default: index_put.index_put,
}
"""Threads of GPUs that write to one place race."""

_FOR_NVIDIA: Table = {
    # cuBLASLt has no products of integers.
    _aten.bmm.default: products.integer_product,
    _aten.mm.default: products.integer_product,
    # Threads of GPUs that add to one place wait for each other.
    _aten.histc.default: histograms.histc_on_cuda,
    # The runtime for NVIDIA GPUs selects faster than it sorts.
    _aten.kthvalue.default: order_statistics.selected_kthvalue,
    _aten.median.default: median.selected_median,
    _aten.median.dim: median.selected_median_dim,
    # The forms that Triton has no atomics for.
    _aten.index_put.default: index_put.index_put_on_cuda,
    _aten.scatter.reduce: narrow_sums.scatter,
    _aten.scatter.value_reduce: narrow_sums.scatter_number,
    _aten.scatter_add.default: narrow_sums.scatter_add,
    _aten.scatter_reduce.two: narrow_sums.scatter_reduce,
    # Triton has none, and no searches in these forms.
    _aten.digamma.default: special_functions.digamma,
    _aten.searchsorted.Tensor: search.searchsorted_on_cuda,
}

CUDA_DECOMPOSITIONS: Table = DECOMPOSITIONS | _WRITES | _TRANSFORMS_BY_KERNELS | _FOR_NVIDIA

_FOR_METAL: Table = {
    _aten._scaled_dot_product_attention_math.default: attention.math_for_mps,
    _aten._weight_int4pack_mm.default: int4.mm_for_metal,
    _aten.abs.default: complex_numbers.absolute_by_division,
}
"""Weights are packed in another way there, and Inductor has no ``hypot`` for it.

``attention_to_metal`` makes the first one of attention whose weights are used.
"""

_OF_METAL = _aten._scaled_dot_product_attention_math_for_mps.default
"""The runtime for Apple GPUs has kernels for it."""

MPS_DECOMPOSITIONS: Table = (
    {op: how for op, how in DECOMPOSITIONS.items() if op is not _OF_METAL}
    | _WRITES
    | _NOT_FOR_NVIDIA
    | _TRANSFORMS_BY_KERNELS
    | _FOR_METAL
)


def of_libraries() -> Table:
    """For ops of our passes, and of other libraries that are imported, for every device."""
    by_space: list[tuple[Any, dict[str, Callable[..., Any]]]] = [
        (torch.ops.torchao, small_weights.OF_TORCHAO),
        (torch.ops.quantized_decomposed, quantised_embeddings.OF_EXECUTORCH),
        (torch.ops.transformers, {"grouped_mm_fallback": row_groups.grouped_mm_of_transformers}),
    ]
    named = [(_overload(space, name), how) for space, t in by_space for name, how in t.items()]
    return {**chosen_products.DECOMPOSITIONS, **{op: how for op, how in named if op is not None}}


def _overload(space: Any, name: str) -> OpOverload | None:
    """An op by its name and, behind a dot, its overload; ``None`` where nobody defined it."""
    op, _, overload = name.partition(".")
    return getattr(getattr(space, op, None), overload or "default", None)


def _is_complex(node: Node) -> bool:
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)


def _is_integer(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and arithmetic.is_integer(value.dtype)


def _has_eight_bits(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in arithmetic.EIGHT_BITS


def _has_mask(node: Node) -> bool:
    indices: Any = node.args[1]
    return any(one is not None and data_sizes.is_mask(one.meta["val"]) for one in indices)


ONLY_FOR: dict[Callable[..., Any], Callable[[Node], bool]] = {
    arithmetic.cat: lambda node: _has_eight_bits(node) or _is_complex(node),
    arithmetic.power: _is_integer,
    complex_numbers.absolute: _is_complex,
    complex_numbers.absolute_by_division: _is_complex,
    complex_numbers.add: _is_complex,
    complex_numbers.angle: _is_complex,
    complex_numbers.multiply: _is_complex,
    complex_numbers.subtract: _is_complex,
    complex_numbers.to_copy: _is_complex,
    data_sizes.index: lambda node: _has_mask(node) or _is_complex(node),
    products.integer_product: _is_integer,
    **dict.fromkeys(complex_numbers.MOVES.values(), _is_complex),
}
"""Functions of the tables that leave most nodes of their ops alone, and which they do not."""


def is_decomposed(node: Node, table: Table) -> bool:
    """Whether a node is of an op of a table, and of a form that its function is for."""
    how = table.get(node.target) if isinstance(node.target, OpOverload) else None
    return how is not None and (how not in ONLY_FOR or ONLY_FOR[how](node))
