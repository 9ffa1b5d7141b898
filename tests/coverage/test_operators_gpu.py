"""The test programs of operators, lowered whole for GPUs, and run on the one that is here."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from shares import shares

from aoti_plugins import CudaPartitioner, MpsPartitioner

Check = Callable[..., None]
SHARES = {device: shares(device) for device in ("cuda", "mps")}
H100 = functools.partial(CudaPartitioner, target="h100")


@pytest.mark.gpu
@pytest.mark.parametrize("share", SHARES["cuda"])
def test_on_this_gpu(share: str, check_cases: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.cuda.is_available(), "tests marked gpu need an NVIDIA GPU that PyTorch sees"
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setenv("AOTI_RUNTIME_CHECK_INPUTS", "1")
    check_cases(SHARES["cuda"][share], functools.partial(CudaPartitioner, target="native"))


@pytest.mark.long
@pytest.mark.parametrize("share", SHARES["cuda"])
def test_for_an_h100(share: str, check_cases: Check) -> None:
    check_cases(SHARES["cuda"][share], H100, is_run=False)


@pytest.mark.long
@pytest.mark.parametrize("share", SHARES["mps"])
def test_for_macs(share: str, check_cases: Check) -> None:
    check_cases(SHARES["mps"][share], MpsPartitioner, is_run=False)
