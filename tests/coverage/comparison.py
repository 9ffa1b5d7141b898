"""Compare what a program gives with eager PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def differences(names: Sequence[str], found: Sequence[Tensor], expected: Sequence[Tensor]) -> str:
    """What differs, a paragraph for each result; empty if nothing does.

    Of half precision the whole is compared, since eager PyTorch rounds after every step.
    """
    problems = []
    for name, one, other in zip(names, found, expected, strict=True):
        try:
            _compare(one.cpu(), other.cpu())
        except AssertionError as error:
            problems.append(f"{name}: {error}")
    return "\n\n".join(problems)


def _compare(found: Tensor, expected: Tensor) -> None:
    if expected.dtype in (torch.float16, torch.bfloat16) and expected.isfinite().all():
        assert found.dtype == expected.dtype, f"{found.dtype}, expected {expected.dtype}"
        assert found.shape == expected.shape, f"{found.shape}, expected {expected.shape}"
        difference = (found.double() - expected.double()).norm()
        bound = 1e-2 * expected.double().norm()
        assert difference <= bound, f"the norm of the difference is {difference}, above {bound}"
        return
    rtol = {torch.float32: 1e-4, torch.float64: 1e-7}.get(expected.dtype, 1e-2)
    tolerance = {"rtol": rtol, "atol": rtol} if expected.is_floating_point() else {}
    torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)
