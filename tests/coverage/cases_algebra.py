"""Matrix products, distances, linear algebra and Fourier transforms."""

from __future__ import annotations

import torch
from operator_case import FLOATS, Case, cases, some, transposed
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten


def _operands(*shapes: tuple[int, ...], dtypes: tuple[torch.dtype, ...] = FLOATS) -> list:
    """Tensors of each dtype, transposed ones, and ones whose first dimension is empty."""
    return [
        *(tuple(some(*shape, dtype=dtype) for shape in shapes) for dtype in dtypes),
        tuple(transposed(*shape) if len(shape) > 1 else some(*shape) for shape in shapes),
    ]


def _definite(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    x = some(*shape, dtype=torch.float64)
    return (x @ x.mT + 4 * torch.eye(shape[-1])).to(dtype)


def _regular(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (some(*shape, dtype=torch.float64) + 9 * torch.eye(shape[-1])).to(dtype)


def _packed_int8(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    return aten._weight_int8pack_mm(x, weight.to(torch.int8), scales)


DOUBLES = FLOATS[:2]

CASES: tuple[Case, ...] = (
    *cases("aten.mm.out", torch.mm, *_operands((4, 6), (6, 5)), (some(0, 6), some(6, 5))),
    *cases("aten.mm.out", torch.mm, (some(4, 6).long(), some(6, 5).long())),
    *cases(
        "aten.mm.dtype_out",
        lambda x, y: aten.mm.dtype(x, y, torch.float32),
        (some(4, 6).bfloat16(), some(6, 5).bfloat16()),
        (some(4, 6).half(), transposed(6, 5).half()),
        reference=lambda x, y: x.float() @ y.float(),
    ),
    *cases(
        "aten.addmm.out",
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
        *_operands((5,), (4, 6), (6, 5)),
    ),
    *cases(
        "aten._addmm_activation.default",
        lambda b, x, y: aten._addmm_activation(b, x, y, use_gelu=False),
        *_operands((5,), (4, 6), (6, 5)),
    ),
    *cases(
        "aten._addmm_activation.default",
        lambda b, x, y: aten._addmm_activation(b, x, y, beta=0.5, alpha=2, use_gelu=True),
        (some(5), some(4, 6), some(6, 5)),
        reference=lambda b, x, y: functional.gelu(torch.addmm(b, x, y, beta=0.5, alpha=2)),
        reference_on_cuda=lambda b, x, y: functional.gelu(
            torch.addmm(b, x, y, beta=0.5, alpha=2), approximate="tanh"
        ),
    ),
    *cases(
        "aten.bmm.out", torch.bmm, *_operands((3, 4, 6), (3, 6, 5)), (some(0, 4, 6), some(0, 6, 5))
    ),
    *cases(
        "aten.baddbmm.out",
        lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2),
        *_operands((3, 4, 5), (3, 4, 6), (3, 6, 5)),
    ),
    *cases(
        "aten.addbmm.default",
        lambda b, x, y: torch.addbmm(b, x, y, beta=0.5, alpha=2),
        *_operands((4, 5), (3, 4, 6), (3, 6, 5)),
        (some(4, 5), some(0, 4, 6), some(0, 6, 5)),
    ),
    *cases(
        "aten.addmv.default",
        lambda b, x, y: torch.addmv(b, x, y, beta=0.5, alpha=2),
        *_operands((4,), (4, 6), (6,)),
        (some(4), some(4, 0), some(0)),
    ),
    *cases("aten.convolution.default", torch.conv2d, *_operands((2, 3, 7, 9), (4, 3, 3, 2), (4,))),
    *cases(
        "aten._trilinear.default",
        lambda x, w, y: functional.bilinear(x, y, w),
        *_operands((4, 3), (5, 3, 6), (4, 6)),
        (some(0, 3), some(5, 3, 6), some(0, 6)),
    ),
    *cases(
        "aten._int_mm.out",
        lambda x, y: torch._int_mm(x.to(torch.int8), y.to(torch.int8)),
        (some(18, 16, low=-99, high=99), some(16, 8, low=-99, high=99)),
        (transposed(32, 24, low=-99, high=99), transposed(24, 16, low=-99, high=99)),
    ),
    *cases(
        "aten._weight_int8pack_mm.default",
        _packed_int8,
        *(
            (some(4, 32, dtype=dtype), some(16, 32, low=-99, high=99), some(16, dtype=dtype))
            for dtype in (torch.float32, torch.bfloat16, torch.float16)
        ),
    ),
    *cases(
        "aten._cdist_forward.default",
        lambda x, y: torch.cdist(x, y, 1.0),
        *_operands((4, 3), (5, 3), dtypes=DOUBLES),
        (some(2, 4, 3), some(2, 5, 3)),
        (some(0, 3), some(5, 3)),
        (some(4, 0), some(5, 0)),
    ),
    *cases(
        "aten._cdist_forward.default", torch.cdist, *_operands((30, 3), (40, 3), dtypes=DOUBLES)
    ),
    *cases(
        "aten._cdist_forward.default",
        lambda x, y: (torch.cdist(x, y, 3.5), torch.cdist(x, y, torch.inf), torch.cdist(x, y, 0.0)),
        (some(4, 3), some(5, 3)),
    ),
    *cases("aten._pdist_forward.default", torch.pdist, *_operands((5, 3), dtypes=DOUBLES)),
    *cases(
        "aten._pdist_forward.default",
        lambda x: (torch.pdist(x, 1.0), torch.pdist(x, 0.0), torch.pdist(x, torch.inf)),
        (some(7, 4),),
        (some(1, 4),),
    ),
    *cases(
        "aten.cholesky_solve.default",
        lambda b, a: torch.cholesky_solve(b, torch.tril(a)),
        (some(5, 3), _regular(5, 5)),
        (some(5, 3).double(), _regular(5, 5).double()),
        (some(2, 4, 3), _regular(2, 4, 4)),
        (some(0, 3), some(0, 0)),
    ),
    *cases(
        "aten.cholesky_solve.default",
        lambda b, a: torch.cholesky_solve(b, a, upper=True),
        (some(5, 3), _regular(5, 5)),
    ),
    *cases(
        "aten.cholesky_inverse.default",
        torch.cholesky_inverse,
        (_regular(5, 5).tril(),),
        (_regular(2, 4, 4, dtype=torch.float64).tril(),),
    ),
    *cases(
        "aten.triangular_solve.default",
        lambda b, a: torch.triangular_solve(b, a)[0],
        (some(5, 3), _regular(5, 5)),
        (some(5, 3).double(), _regular(5, 5).double()),
        (some(2, 4, 3), _regular(2, 4, 4)),
        (some(4, 0), _regular(4, 4)),
    ),
    *cases(
        "aten.triangular_solve.default",
        lambda b, a: torch.triangular_solve(b, a, False, True, True)[0],
        (some(5, 3), _regular(5, 5)),
    ),
    *cases(
        "aten.lu_unpack.default",
        lambda a, pivots: torch.lu_unpack(a, pivots.int()),
        (some(4, 4), torch.tensor([3, 3, 4, 4])),
        (some(3, 5).double(), torch.tensor([2, 3, 3])),
        (some(2, 5, 3), torch.tensor([[2, 5, 3], [1, 2, 4]])),
    ),
    *cases(
        "aten.geqrf.default",
        torch.geqrf,
        (some(5, 3),),
        (some(3, 5).double(),),
        (some(2, 4, 4),),
    ),
    *cases(
        "aten.ormqr.default",
        torch.ormqr,
        (some(5, 3), some(3, low=0.1, high=1), some(5, 4)),
        (some(5, 3).double(), some(3, low=0.1, high=1).double(), some(5, 4).double()),
    ),
    *cases(
        "aten.ormqr.default",
        lambda a, tau, c: torch.ormqr(a, tau, c, False, True),
        (some(5, 3), some(3, low=0.1, high=1), some(4, 5)),
    ),
    *cases(
        "aten._fft_c2c.default",
        lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))),
        (some(3, 8, 2),),
        (some(3, 15, 2),),
        (some(2, 13, 2).double(),),
    ),
    *cases(
        "aten._fft_c2c.default",
        lambda x: torch.view_as_real(torch.fft.ifft2(torch.view_as_complex(x), norm="ortho")),
        (some(4, 6, 2),),
    ),
    *cases(
        "aten._fft_r2c.default",
        lambda x: torch.view_as_real(torch.fft.rfft(x)),
        (some(3, 16),),
        (some(3, 11),),
        (some(3, 12).double(),),
        (transposed(9, 10),),
    ),
    *cases(
        "aten._fft_r2c.default",
        lambda x: torch.view_as_real(torch.fft.rfft2(x, norm="forward")),
        (some(4, 6),),
    ),
    *cases(
        "aten._fft_c2c.default",
        lambda x: torch.view_as_real(torch.fft.fftn(torch.view_as_complex(x), dim=(0, 2))),
        (some(4, 3, 6, 2),),
        (some(3, 2, 4, 2).double(),),
    ),
    *cases(
        "aten._fft_c2c.default",
        lambda x: torch.view_as_real(torch.fft.fftn(torch.view_as_complex(x))),
        (some(2, 3, 4, 5, 2),),
    ),
    *cases(
        "aten._fft_r2c.default",
        lambda x: torch.view_as_real(torch.fft.rfftn(x, dim=(2, 0))),
        (some(4, 3, 6),),
        (some(3, 2, 4).double(),),
    ),
    *cases(
        "aten._fft_c2c.default",
        lambda x: torch.fft.irfft2(torch.view_as_complex(x), s=(4, 7), dim=(1, 0)),
        (some(4, 4, 3, 2),),
    ),
    *cases(
        "aten._fft_c2c.default",
        lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.size(-1)),
        (some(3, 20),),
        (some(3, 21),),
        (some(2, 162).double(),),
        (some(2, 194),),
    ),
)
