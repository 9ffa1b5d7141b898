"""The test programs of operators, lowered whole for the CPU and run, equal eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shares import sample, shares

from aoti_plugins import CpuPartitioner

Check = Callable[..., None]
SHARES = shares("cpu")


def test_sample(check_cases: Check) -> None:
    check_cases(sample("cpu"), CpuPartitioner)


@pytest.mark.long
@pytest.mark.parametrize("share", SHARES)
def test_all(share: str, check_cases: Check) -> None:
    check_cases(SHARES[share], CpuPartitioner)
