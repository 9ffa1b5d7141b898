"""Attention, recurrent layers, normalization, quantized and grouped products, random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from operator_case import FLOATS, Case, cases, forms, places, some
from torch import Tensor, nn
from torch.nn import functional

aten = torch.ops.aten
HEADS = [tuple(some(2, 3, n, 8, dtype=dtype) for n in (5, 7, 7)) for dtype in FLOATS]
MASK = some(5, 7, dtype=torch.bool) | (torch.arange(7) == 0)


def _plain(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    scores = q.double() @ k.double().mT / q.size(-1) ** 0.5
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    return (scores.softmax(-1) @ v.double()).to(q.dtype)


def _attention(op: str, program: Callable[..., Any], *inputs: Any) -> tuple[Case, ...]:
    return cases(f"aten.{op}", program, *(inputs or HEADS[:3]), reference=_plain)


def _lstm_cell(gates: Tensor, hidden: Tensor, cx: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = (gates + hidden + sum(biases)).chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy


def _fp8(x: Tensor) -> Tensor:
    return x.to(torch.float8_e4m3fn)


def _random(op: str, draw: Callable[[Tensor], Tensor], *inputs: tuple[Tensor]) -> tuple[Case, ...]:
    """Whether mean and deviation are near those of other draws: ten standard errors at most."""
    given = inputs or ((torch.zeros(4096),),)
    sample = draw(*given[0]).float()
    mean, deviation = sample.mean().item(), sample.std().item()
    reach = 10 * deviation / sample.numel() ** 0.5

    def program(x: Tensor) -> Tensor:
        found = draw(x).float()
        return torch.stack((found.mean() - mean, found.std() - deviation)).abs() < reach

    return cases(op, program, *given)


DROPPED = torch.ones(4096)
MANY = torch.zeros(4096)

BIASES = some(2, 20)
INT4 = places(16, 16, 64)


def _packed(numbers: Tensor, inner: int) -> Tensor:
    """``numbers [n, k]`` below 16, as PyTorch packs them for tensor cores (``int4mm.cu``)."""
    n, k = numbers.shape
    packed = torch.zeros(n // 8, k // (16 * inner), 32, inner // 2, dtype=torch.int64)
    for tile, outer, lane, word in itertools.product(*map(range, packed.shape)):
        start = (outer * inner + word * 2) * 16 + lane % 4 * 2
        for index, offset in enumerate((0, 8, 16, 24, 1, 9, 17, 25)):
            number = numbers[tile * 8 + lane // 4, start + offset]
            packed[tile, outer, lane, word] |= number << 4 * index
    return packed.to(torch.int32)


def _int4_product(x: Tensor, scales: Tensor) -> Tensor:
    scale, zero = (scales[..., part].t().repeat_interleave(32, 1).float() for part in (0, 1))
    return (x.float() @ ((INT4 - 8) * scale + zero).t()).to(x.dtype)


CASES: tuple[Case, ...] = (
    *cases(
        "aten._scaled_dot_product_flash_attention.default",
        functional.scaled_dot_product_attention,
        *HEADS,
        # Without heads PyTorch 2.11 crashes.
        (some(0, 3, 5, 8), some(0, 3, 7, 8), some(0, 3, 7, 8)),
    ),
    *cases(
        "aten._scaled_dot_product_flash_attention.default",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=-0.5),
        *HEADS[:1],
    ),
    *cases(
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        *HEADS[:3],
    ),
    *cases(
        "aten._scaled_dot_product_efficient_attention.default",
        lambda q, k, v, mask: functional.scaled_dot_product_attention(q, k, v, mask),
        (*HEADS[0], MASK),
        (*HEADS[2], MASK),
    ),
    *_attention(
        "_scaled_dot_product_flash_attention.default",
        lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v)[0],
    ),
    *_attention(
        "_scaled_dot_product_flash_attention_for_cpu.default",
        lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0],
    ),
    *_attention(
        "_scaled_dot_product_efficient_attention.default",
        lambda q, k, v: aten._scaled_dot_product_efficient_attention(q, k, v, None, False)[0],
    ),
    *_attention(
        "_scaled_dot_product_cudnn_attention.default",
        lambda q, k, v: aten._scaled_dot_product_cudnn_attention(q, k, v, None, False)[0],
    ),
    *_attention(
        "_scaled_dot_product_fused_attention_overrideable.default",
        lambda q, k, v: aten._scaled_dot_product_fused_attention_overrideable(q, k, v)[0],
    ),
    *_attention(
        "_scaled_dot_product_attention_math_for_mps.default",
        lambda q, k, v: aten._scaled_dot_product_attention_math_for_mps(q, k, v)[0],
    ),
    *_attention(
        "_flash_attention_forward.default",
        lambda q, k, v: aten._flash_attention_forward(
            *(x.transpose(1, 2) for x in (q, k, v)), None, None, 5, 7, 0.0, False, False
        )[0].transpose(1, 2),
    ),
    *_attention(
        "_efficient_attention_forward.default",
        lambda q, k, v: aten._efficient_attention_forward(
            *(x.transpose(1, 2) for x in (q, k, v)), None, None, None, None, None, 0.0, 0
        )[0].transpose(1, 2),
    ),
    *cases(
        "aten._weight_int4pack_mm.default",
        lambda x, w, s: aten._weight_int4pack_mm(x, w, 32, s),
        (some(4, 64).bfloat16(), _packed(INT4, 2), some(2, 16, 2).bfloat16()),
        (some(1, 64).bfloat16(), _packed(INT4, 4), some(2, 16, 2).bfloat16()),
        reference=lambda x, w, s: _int4_product(x, s),
    ),
    *cases(
        "aten._cudnn_rnn.default",
        nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True).eval(),
        (some(3, 4, 6),),
    ),
    *cases("aten._cudnn_rnn.default", nn.GRU(6, 5).eval(), (some(4, 3, 6),)),
    *cases(
        "aten._thnn_fused_lstm_cell.default",
        lambda *gates: aten._thnn_fused_lstm_cell(*gates)[:2],
        *(
            (*(some(n, size, dtype=dtype) for size in (20, 20, 5)), *BIASES.to(dtype))
            for n, dtype in ((3, torch.float32), (4, torch.float16), (0, torch.float32))
        ),
        reference=_lstm_cell,
    ),
    *cases("aten._thnn_fused_lstm_cell.default", nn.LSTMCell(6, 5).eval(), (some(3, 6),)),
    *cases(
        "aten._fused_rms_norm.default",
        lambda x, w: functional.rms_norm(x, (x.shape[-1],), w),
        *((x, some(x.shape[-1], dtype=x.dtype)) for (x,) in forms(4, 6)),
    ),
    *cases(
        "aten._fused_rms_norm.default",
        lambda x: aten._fused_rms_norm(x, [6], None, 1e-5),
        *forms(4, 6)[:3],
    ),
    *cases(
        "aten._scaled_mm.default",
        lambda x, y, s, t: torch._scaled_mm(_fp8(x), _fp8(y).t(), s, t, out_dtype=torch.bfloat16),
        (some(16, 32), some(16, 32), torch.tensor(0.5), torch.tensor(0.25)),
    ),
    *cases(
        "aten._scaled_mm.out",
        lambda x, y, s, t: torch._scaled_mm(_fp8(x), _fp8(y).t(), s, t, out_dtype=torch.bfloat16),
        (some(16, 32), some(16, 32), some(16, 1, low=0), some(1, 16, low=0)),
        reference=lambda x, y, s, t: ((_fp8(x).float() * s) @ (_fp8(y).float().t() * t)).bfloat16(),
    ),
    *cases(
        "aten._grouped_mm.default",
        lambda x, y, ends: torch._grouped_mm(x, y, offs=ends),
        (
            some(12, 16).bfloat16(),
            some(3, 16, 8).bfloat16(),
            torch.tensor([4, 4, 12], dtype=torch.int32),
        ),
    ),
    *cases(
        "aten._grouped_mm.default",
        lambda x, y: torch._grouped_mm(x, y),
        (some(3, 8, 16).bfloat16(), some(3, 16, 8).bfloat16()),
    ),
    *cases(
        "aten._scaled_grouped_mm.default",
        lambda x, y, s, t, ends: torch._scaled_grouped_mm(
            _fp8(x), _fp8(y).transpose(1, 2), s, t, ends, out_dtype=torch.bfloat16
        ),
        (
            some(32, 16),
            some(2, 16, 16),
            some(32, low=0),
            some(2, 16, low=0),
            torch.tensor([16, 32], dtype=torch.int32),
        ),
        reference=lambda x, y, s, t, ends: torch.cat(
            [
                (_fp8(x[16 * g : 16 * g + 16]).float() * s[16 * g : 16 * g + 16, None])
                @ (_fp8(y[g]).float().t() * t[g])
                for g in range(2)
            ]
        ).bfloat16(),
    ),
    *_random(
        "aten.native_dropout.default", lambda x: torch.native_dropout(x, 0.25, True)[0], (DROPPED,)
    ),
    *cases(
        "aten.native_dropout.default",
        lambda x: torch.native_dropout(x, 0.25, False),
        *forms(4, 6)[:3],
    ),
    *_random("aten.bernoulli_.float", lambda x: x.clone().bernoulli_(0.25)),
    *_random("aten.bernoulli_.Tensor", lambda x: x.clone().bernoulli_(x + 0.75)),
    *_random("aten.exponential.default", lambda x: x.clone().exponential_(2.0)),
    *_random("aten.normal_functional.default", lambda x: x.clone().normal_(1.0, 2.0)),
    *_random("aten.rand.default", lambda x: x + torch.rand(4096)),
    *_random("aten.randn.default", lambda x: x + torch.randn(4096)),
    *_random("aten.randint.default", lambda x: x + torch.randint(3, (4096,))),
    *_random("aten.randint.low", lambda x: x + torch.randint(-2, 5, (4096,))),
    *_random("aten.randint.low_out", lambda x: x + torch.randint(-9, 2, (4096,))),
    *_random("aten.rand_like.default", torch.rand_like, (MANY,), (MANY.bfloat16(),)),
    *_random("aten.randn_like.default", torch.randn_like, (MANY,), (MANY.half(),)),
    *_random("aten.randint_like.default", lambda x: torch.randint_like(x, 3)),
    *_random("aten.randint_like.low_dtype", lambda x: torch.randint_like(x, -2, 5)),
    *_random("aten.uniform.default", lambda x: x.clone().uniform_(-1.0, 3.0)),
    *cases(
        "aten.randperm.default", lambda x: torch.sort(x + torch.randperm(99))[0], (torch.zeros(99),)
    ),
)
