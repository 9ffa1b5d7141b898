"""Complex numbers as pairs of real ones, which is what Inductor computes with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.passes.restore_views import VIEWS

_aten = torch.ops.aten
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
_REAL = {complex_: real for real, complex_ in _COMPLEX.items()}
_CHANNELS_LAST = (0, 2, 3, 1)


def view_as_complex(pairs: Tensor) -> Any:
    """``aten.view_as_complex.default``: ``[..., n, 2]`` to ``[..., n]``."""
    if pairs.dtype not in _COMPLEX or pairs.dim() < 2 or _is_empty(pairs):
        return NotImplemented
    # So that the last step gives the shape: Inductor knows no other views of complex numbers.
    flat = pairs.reshape(*pairs.shape[:-2], pairs.size(-2) * 2).contiguous()
    return torch.ops.aten.view.dtype(flat, _COMPLEX[pairs.dtype])


def from_parts(real: Tensor, imaginary: Tensor) -> Tensor:
    """Complex numbers from tensors of one shape and dtype, float32 or float64."""
    return view_as_complex(torch.stack((real, imaginary), -1))


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts."""
    pairs = torch.view_as_real(x)
    return pairs[..., 0], pairs[..., 1]


def polar(length: Tensor, angle: Tensor) -> Any:
    """``aten.polar.default``."""
    if length.dtype not in _COMPLEX:
        return NotImplemented
    return from_parts(*torch.broadcast_tensors(length * angle.cos(), length * angle.sin()))


def angle(x: Tensor) -> Any:
    """``aten.angle.default`` of complex numbers."""
    if not x.is_complex():
        return NotImplemented
    real, imaginary = parts(x)
    return torch.atan2(imaginary, real)


def absolute(x: Tensor) -> Any:
    """``aten.abs.default`` of complex numbers."""
    if not x.is_complex():
        return NotImplemented
    return torch.hypot(*parts(x))


def absolute_by_division(x: Tensor) -> Any:
    """As ``absolute``, for devices without ``hypot``: nothing overflows."""
    if not x.is_complex():
        return NotImplemented
    real, imaginary = (one.abs() for one in parts(x))
    larger, smaller = torch.maximum(real, imaginary), torch.minimum(real, imaginary)
    ratio = smaller / larger
    found = torch.where(larger == 0, larger, larger * torch.sqrt(1 + ratio * ratio))
    infinite = torch.isinf(real) | torch.isinf(imaginary)
    return torch.where(infinite, torch.inf, found)


def add(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    """``aten.add.Tensor`` where one at least is complex."""
    dtype = _dtype_of(x, y)
    if dtype is None or isinstance(alpha, complex):
        return NotImplemented
    (a, b), (c, d) = _parts(x, dtype), _parts(y, dtype)
    real, imaginary = a + c * alpha, b + d * alpha
    if not isinstance(imaginary, Tensor):  # that of a real tensor and a number
        imaginary = torch.full_like(real, imaginary)
    return _joined(real, imaginary)


def subtract(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    """``aten.sub.Tensor`` where one at least is complex."""
    return add(x, y, alpha=-alpha)


def multiply(x: Any, y: Any) -> Any:
    """``aten.mul.Tensor`` where one at least is complex.

    A real factor multiplies both parts and nothing else: the zero that PyTorch's CPU kernel gives
    it for an imaginary part makes NaN of infinities and NaNs in the other part there.
    """
    dtype = _dtype_of(x, y)
    if dtype is None:
        return NotImplemented
    if not _is_complex(x) or not _is_complex(y):
        factor, number = (y, x) if _is_complex(x) else (x, y)
        factor = factor.to(dtype) if isinstance(factor, Tensor) else factor
        return _joined(*(part * factor for part in _parts(number, dtype)))
    (a, b), (c, d) = _parts(x, dtype), _parts(y, dtype)
    return _joined(a * c - b * d, a * d + b * c)


def complex_of(real: Tensor, imaginary: Tensor) -> Any:
    """``aten.complex.default``."""
    if real.dtype not in _COMPLEX or not _is_made(real * imaginary):
        return NotImplemented
    return _joined(real, imaginary)


def conjugate(x: Tensor) -> Any:
    """``aten._conj.default``."""
    if not x.is_complex() or not _is_made(x):
        return NotImplemented
    real, imaginary = parts(x)
    return from_parts(real, -imaginary)


def moved(op: OpOverload, x: Any, *args: Any, **named: Any) -> Any:
    """An op that moves elements and computes nothing: it moves both parts alike.

    Args:
        op: the op.
        x: a tensor, or a list of them.
        args: the op's other arguments.
        named: and keywords.
    """
    first = x if isinstance(x, Tensor) else x[0]
    if first.dtype not in _COMPLEX.values():
        return NotImplemented
    results = []
    for part in (0, 1):
        of_part = pytree.tree_map(lambda one, part=part: parts(one)[part], x)
        results.append(op(of_part, *args, **named))
    if not all(_is_made(one) for one in pytree.tree_leaves(results)):
        return NotImplemented
    return pytree.tree_map(from_parts, *results)


def _is_made(x: Tensor) -> bool:
    """Whether there is a way to make such a complex tensor of pairs."""
    return x.dim() > 0 and not _is_empty(x)


def _moves() -> dict[OpOverload, Callable[..., Any]]:
    """Both forms of views, which edge programs have as copies, and what copies."""
    views = {copy: op for copy, op in VIEWS.items() if op not in _OTHER_VIEWS}
    others = (_aten.cat.default, _aten.clone.default, _aten.flip.default, _aten.view.default)
    by_op = {op: partial(moved, op) for op in (*views.values(), *others)}
    return by_op | {copy: by_op[op] for copy, op in views.items()}


_OTHER_VIEWS = (
    _aten.alias.default,
    _aten.as_strided.default,
    _aten.detach.default,
    _aten.view_as_real.default,
)

MOVES = _moves()
"""Of complex numbers, for which Inductor knows no views."""


def to_copy(
    x: Tensor,
    *,
    dtype: torch.dtype | None = None,
    memory_format: torch.memory_format | None = None,
    dim_order: Sequence[int] | None = None,
    **_: Any,
) -> Any:
    """``aten._to_copy.default`` to complex numbers, and ExecuTorch's form of it, row-major.

    A layout that ExecuTorch has no memory format for is not kept.
    """
    if dtype not in _REAL or x.dim() == 0 or _is_empty(x):
        return NotImplemented
    if not _makes_row_major(x, memory_format, dim_order):
        return NotImplemented
    real, imaginary = _parts(x, _REAL[dtype])
    return _joined(real, imaginary if x.is_complex() else torch.zeros_like(real))


def _makes_row_major(
    x: Tensor, memory_format: torch.memory_format | None, dim_order: Sequence[int] | None
) -> bool:
    """Whether a copy of ``x`` is to be row-major, or kept in a layout without a memory format."""
    if dim_order is not None:
        return list(dim_order) == list(range(x.dim()))
    if memory_format in (None, torch.preserve_format):
        return x.dim_order() != _CHANNELS_LAST
    return memory_format == torch.contiguous_format


def _is_empty(x: Tensor) -> bool:
    """Whether a tensor has no elements, whatever the data; what only they decide is not known."""
    return statically_known_true(x.numel() == 0)


def _is_complex(x: Any) -> bool:
    return x.is_complex() if isinstance(x, Tensor) else isinstance(x, complex)


def _dtype_of(x: Any, y: Any) -> torch.dtype | None:
    """The dtype of the parts of what ``x`` and ``y`` give; ``None`` if it is not complex."""
    return _REAL.get(torch.result_type(x, y))


def _parts(x: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """Real and imaginary parts of a tensor or number; tensors in ``dtype``."""
    if not isinstance(x, Tensor):
        return complex(x).real, complex(x).imag
    if not x.is_complex():
        return x.to(dtype), 0.0
    real, imaginary = parts(x)
    return real.to(dtype), imaginary.to(dtype)


def _joined(real: Any, imaginary: Any) -> Tensor:
    return from_parts(*torch.broadcast_tensors(real, imaginary))
