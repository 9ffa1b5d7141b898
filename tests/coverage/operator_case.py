"""What a test program of an operator is, and the tensors that the programs start from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)


@dataclass(frozen=True)
class Case:
    """One program that reaches an operator.

    Attributes:
        op: the operator, as in PyTorch's list of fallback operators.
        program: what is exported; takes ``inputs`` and returns tensors.
        inputs: real numbers, integers or truth values; ExecuTorch takes no others.
        reference: what to compare with, where it is not ``program`` itself.
        reference_on_cuda: the same for NVIDIA GPUs, where PyTorch gives something else there.
        is_first: whether it stands for those that differ from it in the inputs alone.
        is_run: whether PyTorch can run it on this machine; others are only asked about.
    """

    op: str
    program: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    reference: Callable[..., Any] | None = None
    is_first: bool = True
    is_run: bool = True
    reference_on_cuda: Callable[..., Any] | None = None

    def on_cuda(self) -> Case:
        """The same program with what to compare with on NVIDIA GPUs."""
        return replace(self, reference=self.reference_on_cuda or self.reference)

    def __str__(self) -> str:
        return f"{self.op}({self.inputs_text()})"

    def inputs_text(self) -> str:
        """Dtypes, sizes and strides of the inputs."""
        return ", ".join(map(describe, self.inputs))

    def expected(self) -> Any:
        """What eager PyTorch gives."""
        with torch.no_grad():
            return (self.reference or self.program)(*self.inputs)


class Programs(nn.Module):
    """The programs of several cases as one, so that they are compiled once."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self._cases = tuple(cases)
        modules = [case.program for case in cases if isinstance(case.program, nn.Module)]
        self.modules_of_cases = nn.ModuleList(modules)

    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of all cases, one after the other."""
        return tuple(tensor for case in self._cases for tensor in case.inputs)

    def expected(self) -> list[Tensor]:
        """What eager PyTorch gives, one after the other."""
        return [one for case in self._cases for one in pytree.tree_leaves(case.expected())]

    def names(self) -> list[str]:
        """The case that each result is of."""
        return [str(case) for case in self._cases for _ in pytree.tree_leaves(case.expected())]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The results of all cases, one after the other."""
        results: list[Tensor] = []
        start = 0
        for case in self._cases:
            end = start + len(case.inputs)
            results += pytree.tree_leaves(case.program(*inputs[start:end]))
            start = end
        return tuple(results)


def cases(
    op: str,
    program: Callable[..., Any],
    *inputs: tuple[Tensor, ...],
    reference: Callable[..., Any] | None = None,
    is_run: bool = True,
    reference_on_cuda: Callable[..., Any] | None = None,
) -> tuple[Case, ...]:
    """One case for each tuple of inputs."""
    return tuple(
        Case(op, program, one, reference, index == 0, is_run, reference_on_cuda)
        for index, one in enumerate(inputs)
    )


def describe(x: Tensor) -> str:
    """Dtype, sizes, and strides where they are not row-major."""
    strides = "" if x.is_contiguous() else f", strides {list(x.stride())}"
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}{strides}"


def some(
    *shape: int, dtype: torch.dtype = torch.float32, low: float = -4, high: float = 4
) -> Tensor:
    """Numbers from ``low`` to ``high``, the same for the same shape; of integers many are equal."""
    generator = torch.Generator().manual_seed(sum(shape) + 7 * len(shape))
    values = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    if dtype == torch.bool:
        return values > (low + high) / 2
    return values.abs().to(dtype) if dtype == torch.uint8 else values.to(dtype)


def places(bound: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Integers from 0 to ``bound - 1``."""
    return some(*shape, low=0, high=bound).floor().clamp(0, bound - 1).to(dtype)


def transposed(*shape: int, **how: Any) -> Tensor:
    """As ``some``, with the last two dimensions the other way round in memory."""
    return some(*shape[:-2], shape[-1], shape[-2], **how).transpose(-1, -2)


def with_nans(x: Tensor) -> Tensor:
    """About every fifth element is NaN."""
    return torch.where(some(*x.shape, low=0, high=5) < 1, torch.nan, x)


def forms(*shape: int, dtypes: Iterable[torch.dtype] = FLOATS, **how: Any) -> list[tuple[Tensor]]:
    """One tensor of each dtype, one that is transposed, one with odd sizes, one without elements.

    Args:
        shape: two dimensions or more.
        dtypes: the first one is that of the last three.
        how: ``low`` and ``high`` of ``some``.
    """
    first, *others = dtypes
    odd = [size + 2 + index for index, size in enumerate(shape)]
    return [
        (some(*shape, dtype=first, **how),),
        *((some(*shape, dtype=dtype, **how),) for dtype in others),
        (transposed(*shape, dtype=first, **how),),
        (some(*odd, dtype=first, **how),),
        (some(0, *shape[1:], dtype=first, **how),),
    ]
