"""Kernels are timed while the host is ahead; here the GPU is a list of commands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.runtime.benchmarking import InductorBenchmarker

from aoti_plugins.cuda.inductor.steady_times import ROUNDS, steady_times


class Gpu:
    """Commands in the order in which they were sent; kernels take 1, 2, 3, … ms."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[str] = []
        self.clock = 0.0
        self._kernels = 0
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = gpu.clock

            def elapsed_time(self, end: Event) -> float:
                return end.at - self.at

        class Buffer:
            def zero_(self) -> None:
                gpu.commands.append("clear")
                gpu.clock += 100

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: gpu.commands.append("wait"))
        monkeypatch.setattr(torch.cuda, "_sleep", gpu._sleep)
        monkeypatch.setattr(torch, "empty", lambda *size, **kwargs: Buffer())
        monkeypatch.setattr(InductorBenchmarker, "L2_cache_size", 1 << 20)

    def _sleep(self, cycles: int) -> None:
        self.commands.append("spin")
        self.cycles = cycles

    def kernel(self) -> None:
        self._kernels += 1
        self.commands.append("kernel")
        self.clock += self._kernels
        time.sleep(0.001)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    gpu = Gpu(monkeypatch)

    def timed(**kwargs: Any) -> tuple[Gpu, Any]:
        with steady_times():
            return gpu, InductorBenchmarker().benchmark_gpu(gpu.kernel, **kwargs)

    return timed


def test_everything_is_sent_while_the_gpu_spins(timed: Callable[..., Any]) -> None:
    gpu, milliseconds = timed(rep=40)
    rounds = gpu.commands[gpu.commands.index("spin") + 1 : -1]
    assert rounds == ["clear", "kernel"] * (len(rounds) // 2)
    assert 1 <= len(rounds) // 2 <= ROUNDS
    assert gpu.commands[-1] == "wait"
    assert gpu.cycles >= 0.001 * len(rounds) // 2 * 1e9, "the host sleeps a millisecond per launch"
    assert milliseconds == 5, "the first is not timed, three tell how long the host takes"


@pytest.mark.parametrize(("mode", "pick"), [("median", 1 / 2), ("mean", 1 / 2)])
def test_summaries(timed: Callable[..., Any], mode: str, pick: float) -> None:
    all_times = timed(return_mode="all")[1]
    assert all_times == sorted(all_times)
    summary = timed(return_mode=mode)[1]
    assert summary > len(all_times) * pick


def test_determinism_is_respected(timed: Callable[..., Any]) -> None:
    with torch._inductor.config.patch(deterministic=True), pytest.raises(RuntimeError):
        timed()
    with torch._inductor.config.patch(deterministic=True):
        assert timed(is_vetted_benchmarking=True)[1] > 0
