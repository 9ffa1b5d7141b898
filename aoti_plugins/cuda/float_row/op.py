"""The operator ``aoti_plugins::float_row``, which Inductor sees as its kernel."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import triton_op

from aoti_plugins.cuda.triton_kernels import wrapped
from aoti_plugins.lowering.small_weights.float_weights import product, values

# Bytes of a row of the weight from which on four warps share it, two pieces to a lane each.
_LONG_ROW = 8192

# Codes, scales, and what numbers as the kernel makes them are too small by.
_KINDS = {
    "e4m3": ("E4M3", "NONE", 2.0**8),
    "e5m2": ("E5M2", "NONE", 1.0),
    "mx_e4m3": ("E4M3", "OF_32", 2.0**8),
    "mx_e5m2": ("E5M2", "OF_32", 1.0),
    "nvfp4": ("E2M1", "OF_16", 2.0 ** (14 + 8)),
}


@triton_op("aoti_plugins::float_row", mutates_args=())
def float_row(
    x: Tensor,
    codes: Tensor,
    scale: Tensor | None,
    factor: Tensor | None,
    bias: Tensor | None,
    kind: str,
) -> Tensor:
    """One row times the transpose of a weight ``[n, k]`` of floats of 8 or 4 bits.

    Args:
        x: ``[..., k]``, float32, float16 or bfloat16, with one row.
        codes: as ``small_weights.float_weights.FloatWeight`` has them; no E4M3 is NaN.
        scale: likewise, of groups; none of ``"e4m3"`` and ``"e5m2"``.
        factor: ``[n, 1]``, float32, of rows; none of MX.
        bias: ``[n]``, floats.
        kind: ``"e4m3"``, ``"e5m2"``, ``"mx_e4m3"``, ``"mx_e5m2"`` or ``"nvfp4"``.

    Returns:
        ``[..., n]``, the dtype of x; sums are float32.
    """
    out = torch.empty((*x.shape[:-1], codes.size(0)), dtype=x.dtype, device=x.device)
    run(x.contiguous(), codes, scale, factor, bias, kind, out)
    return out


@float_row.register_fake
def _(x, codes, scale, factor, bias, kind):  # type: ignore[no-untyped-def]
    del scale, factor, bias, kind
    return x.new_empty((*x.shape[:-1], codes.size(0)))


@float_row.register_kernel("cpu")
def _(x, codes, scale, factor, bias, kind):  # type: ignore[no-untyped-def]
    """Without the kernel, for a program that is run before its tensors move to a GPU."""
    ones = codes.new_ones((codes.size(0), 1), dtype=torch.float32)
    weight = values(codes, ones if scale is None else scale, 1.0, kind)
    return product(x, weight if factor is None else weight * factor, bias)


def run(
    x: Tensor,
    codes: Tensor,
    scale: Tensor | None,
    factor: Tensor | None,
    bias: Tensor | None,
    kind: str,
    out: Tensor,
) -> None:
    """Multiply on the GPU, or into a graph that is traced; arguments as ``float_row`` has them."""
    from aoti_plugins.cuda.float_row import kernels

    n, nbytes = codes.shape
    number, scales, lacks = _KINDS[kind]
    rows, pieces, warps = _configuration(nbytes, kind)
    wrapped(kernels.one_row)[((n + rows - 1) // rows,)](
        x,
        codes,
        out if scale is None else scale,
        out if factor is None else factor,
        out if bias is None else bias,
        out,
        n,
        x.shape[-1],
        LACKS=lacks,
        KIND=getattr(kernels, number).value,
        SCALES=getattr(kernels, scales).value,
        FACTOR=factor is not None,
        BIAS=bias is not None,
        ROWS=rows,
        PIECES=pieces,
        num_warps=warps,
    )


def _configuration(nbytes: int, kind: str) -> tuple[int, int, int]:
    """Rows of a program, pieces that it takes of each at a time, and warps, as measured.

    Of a weight with exponents for scales a long row is faster alone, others in pairs.
    """
    if nbytes >= _LONG_ROW:
        return (1 if kind.startswith("mx_") else 2), 128, 4
    return (2, 32, 1) if kind.startswith("mx_") else (2, 64, 2)
