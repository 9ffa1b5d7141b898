"""The test programs of operators, lowered whole for GPUs, and run on the one that is here."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from shares import shares

from aoti_plugins import CudaPartitioner, MpsPartitioner
from aoti_plugins.lowering.decompositions.int4 import mm_for_tensor_cores

Check = Callable[..., None]
SHARES = {device: shares(device) for device in ("cuda", "mps")}
H100 = functools.partial(CudaPartitioner, target="h100")


@pytest.mark.gpu
@pytest.mark.parametrize("share", SHARES["cuda"])
def test_on_this_gpu(share: str, check_cases: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.cuda.is_available(), "tests marked gpu need an NVIDIA GPU that PyTorch sees"
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setenv("AOTI_RUNTIME_CHECK_INPUTS", "1")
    cases = [case.on_cuda() for case in SHARES["cuda"][share]]
    check_cases(cases, functools.partial(CudaPartitioner, target="native"))


@pytest.mark.long
@pytest.mark.parametrize("share", SHARES["cuda"])
def test_for_an_h100(share: str, check_cases: Check) -> None:
    check_cases(SHARES["cuda"][share], H100, is_run=False)


@pytest.mark.long
@pytest.mark.parametrize("share", SHARES["mps"])
def test_for_macs(share: str, check_cases: Check) -> None:
    check_cases(SHARES["mps"][share], MpsPartitioner, is_run=False)


@pytest.mark.gpu
@pytest.mark.parametrize("inner", [2, 4, 8])
def test_int4_weights_are_packed_as_pytorch_does(inner: int) -> None:
    numbers = torch.randint(0, 256, (16, 128), dtype=torch.uint8, device="cuda")
    weight = torch.ops.aten._convert_weight_to_int4pack(numbers, inner)
    x = torch.randn(5, 256, dtype=torch.bfloat16, device="cuda")
    scales = torch.rand(256 // 64, 16, 2, dtype=torch.bfloat16, device="cuda")
    expected = torch.ops.aten._weight_int4pack_mm(x, weight, 64, scales)
    found = mm_for_tensor_cores(x, weight, 64, scales)
    difference = (found.double() - expected.double()).norm()
    assert difference <= 1e-2 * expected.double().norm(), f"the difference has norm {difference}"
