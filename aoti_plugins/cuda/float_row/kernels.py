"""One row times a weight of floats of 8 or 4 bits as a Triton kernel.

Not imported with the package: importing this module needs triton. The weight ``[n, k]`` lies as
``small_weights.float_weights.FloatWeight`` says, in pieces of 16 bytes: 16 floats of 8 bits, or 32
of 4 bits, of which the first 16 are the lower halves of the bytes.
"""

# ruff: noqa: N803
# mypy: allow-untyped-defs
# The types of a kernel are Triton's: pointers, integers, and upper-case compile-time constants.

from __future__ import annotations

import triton
import triton.language as tl

E4M3 = tl.constexpr(0)
E5M2 = tl.constexpr(1)
E2M1 = tl.constexpr(2)
"""A float has so many bits for its exponent and for its fraction."""

NONE = tl.constexpr(0)
OF_32 = tl.constexpr(1)
OF_16 = tl.constexpr(2)
"""What has a scale: nothing, 32 weights (an exponent of float32), 16 (an E4M3)."""


@triton.jit
def _moved(codes, WORD: tl.constexpr, BITS: tl.constexpr, KEPT: tl.constexpr):
    # Bytes as float16, four at a time: two of them move to the upper halves of two float16, and
    # there their bits without the sign move on. ``WORD`` makes the four of a register, ``$2``.
    return tl.inline_asm_elementwise(
        """{
        .reg .b32 pair, moved, word;
        """
        + WORD
        + """
        prmt.b32 pair, word, 0, 0x1404;
        shr.u32 moved, pair, """
        + BITS
        + """;
        and.b32 pair, pair, 0x80008000;
        lop3.b32 $0, moved, """
        + KEPT
        + """, pair, 0xea;
        prmt.b32 pair, word, 0, 0x3424;
        shr.u32 moved, pair, """
        + BITS
        + """;
        and.b32 pair, pair, 0x80008000;
        lop3.b32 $1, moved, """
        + KEPT
        + """, pair, 0xea;
        }""",
        "=&r,=&r,r",
        [codes],
        dtype=tl.float16,
        is_pure=True,
        pack=4,
    )


@triton.jit
def float8_numbers(codes, KIND: tl.constexpr):
    """Bytes as float16; an E4M3 256 times too small, as float16 has other exponents."""
    if KIND == E5M2:
        return tl.inline_asm_elementwise(
            "prmt.b32 $0, $2, 0, 0x1404; prmt.b32 $1, $2, 0, 0x3424;",
            "=&r,=r,r",
            [codes],
            dtype=tl.float16,
            is_pure=True,
            pack=4,
        )
    return _moved(codes, "mov.b32 word, $2;", "1", "0x3fff3fff")


@triton.jit
def float4_numbers(codes, ABOVE: tl.constexpr):
    """The lower or the upper halves of bytes as float16, 16384 times too small."""
    # What else comes into a byte's upper half is masked.
    word: tl.constexpr = "mov.b32 word, $2;" if ABOVE else "shl.b32 word, $2, 4;"
    return _moved(codes, word, "3", "0x0e000e00")


@triton.jit
def _power(exponents):
    # Powers of two by their exponents as float32 has them; 255 is no number.
    bits = tl.where(exponents == 0, 0x400000, exponents.to(tl.int32) << 23)
    return tl.where(exponents == 255, 0x7FC00000, bits).to(tl.float32, bitcast=True)


@triton.jit
def _small_e4m3(codes):
    # 256 times too small, like ``float8_numbers``, of integers that need not be four in a register.
    bits = ((codes & 0x7F) << 7) | ((codes & 0x80) << 8)
    return bits.to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _sums(
    codes, scales, row, pieces, count, values, above, KIND: tl.constexpr, SCALES: tl.constexpr
):
    # Sums over pieces of a row, with their scales.
    is_in = pieces < count
    at = row * count + pieces
    places = at[:, None] * 16 + tl.arange(0, 16)[None, :]
    # A weight is read once in a call.
    piece = tl.load(codes + places, mask=is_in[:, None], other=0, eviction_policy="evict_first")
    if KIND == E2M1:
        pairs = scales.to(tl.pointer_type(tl.uint16))
        scale = tl.load(pairs + at, mask=is_in, other=0).to(tl.int32)
        below = tl.sum(float4_numbers(piece, False).to(tl.float32) * values, 1)
        upper = tl.sum(float4_numbers(piece, True).to(tl.float32) * above, 1)
        return below * _small_e4m3(scale & 0xFF) + upper * _small_e4m3(scale >> 8)
    found = tl.sum(float8_numbers(piece, KIND).to(tl.float32) * values, 1)
    if SCALES == OF_32:
        found *= _power(tl.load(scales + at // 2, mask=is_in, other=0))
    return found


@triton.jit
def _write(
    total, factors, bias, out, row, LACKS: tl.constexpr, FACTOR: tl.constexpr, BIAS: tl.constexpr
):
    result = tl.sum(total, 0) * LACKS
    if FACTOR:
        result *= tl.load(factors + row)
    if BIAS:
        result += tl.load(bias + row).to(tl.float32)
    tl.store(out + row, result.to(out.dtype.element_ty))


@triton.jit
def one_row(
    x,
    codes,
    scales,
    factors,
    bias,
    out,
    n,
    k,
    LACKS: tl.constexpr,
    KIND: tl.constexpr,
    SCALES: tl.constexpr,
    FACTOR: tl.constexpr,
    BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    PIECES: tl.constexpr,
):
    """Write ``out [n]``, the product of ``x [k]``; k is a multiple of 32.

    A program has one row of the weight, or two (``ROWS``), which read x together, and takes
    ``PIECES`` of each at a time. ``LACKS``: by how much numbers and scales are too small.
    ``factors [n, 1]``, float32, and ``bias [n]`` are not read without ``FACTOR`` and ``BIAS``.
    Grid: ``[ceil(n / ROWS)]``.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS
    next_row = tl.minimum(row + ROWS - 1, n - 1)
    per_piece: tl.constexpr = 32 if KIND == E2M1 else 16
    count = k // per_piece
    total = tl.zeros((PIECES,), tl.float32)
    next_total = tl.zeros((PIECES,), tl.float32)
    for first in range(0, count, PIECES):
        pieces = first + tl.arange(0, PIECES)
        is_in = (pieces < count)[:, None]
        places = x + pieces[:, None] * per_piece + tl.arange(0, 16)[None, :]
        values = tl.load(places, mask=is_in, other=0).to(tl.float32)
        above = values
        if KIND == E2M1:
            above = tl.load(places + 16, mask=is_in, other=0).to(tl.float32)
        total += _sums(codes, scales, row, pieces, count, values, above, KIND, SCALES)
        if ROWS == 2:
            next_total += _sums(codes, scales, next_row, pieces, count, values, above, KIND, SCALES)
    _write(total, factors, bias, out, row, LACKS, FACTOR, BIAS)
    if ROWS == 2:
        _write(next_total, factors, bias, out, next_row, LACKS, FACTOR, BIAS)
