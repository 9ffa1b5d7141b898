"""What is measured of a kernel is the GPU's time, however slow the host is."""

from __future__ import annotations

import time

import pytest
import torch
from torch._inductor.runtime.benchmarking import InductorBenchmarker

from aoti_plugins.cuda.inductor.steady_times import steady_times

pytestmark = pytest.mark.gpu


def test_a_slow_host_does_not_count() -> None:
    x = torch.zeros(1024, device="cuda")

    def slowly() -> None:
        time.sleep(0.0005)
        x.add_(1)

    with steady_times():
        milliseconds = InductorBenchmarker().benchmark_gpu(slowly)
    assert 0 < milliseconds < 0.05


def test_large_and_small_are_told_apart() -> None:
    small = torch.zeros(1 << 10, device="cuda")
    large = torch.zeros(1 << 28, device="cuda")
    with steady_times():
        times = [InductorBenchmarker().benchmark_gpu(lambda x=x: x.add_(1)) for x in (small, large)]
    assert times[1] > 10 * times[0]
