"""Time kernels on a GPU without the host in between.

Inductor records an event, calls the kernel from Python, records another one. A kernel of a few
microseconds is over before the host has sent the next command, and then what is measured is the
host: on a slow or busy one small kernels were "measured" at 20 to 60 us, and the choice among them
was left to chance. Here the GPU first spins until the host has sent everything that will be timed.

Patched: ``InductorBenchmarker.benchmark_gpu``, through which Inductor times templates, libraries
and configurations.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.runtime import benchmarking

from aoti_plugins.lowering.inductor.patching import replacement

ROUNDS = 30
_TRIAL_ROUNDS = 3

# No GPU runs faster; at a lower clock it spins longer than needed.
_MOST_CYCLES_PER_SECOND = 2.5e9
_MARGIN = 2.0
_LONGEST_SPIN_S = 0.2

# What takes long is timed in fewer rounds.
_LONGEST_MEASUREMENT_S = 0.05


@replacement(
    "torch._inductor.runtime.benchmarking.InductorBenchmarker.benchmark_gpu(self, _callable)",
    why="The times of small kernels would be the host's.",
    until="Inductor measures that way",
)
def steady_times(
    original: Any,
    self: Any,
    _callable: Callable[[], Any],
    *args: Any,
    return_mode: str = "min",
    grad_to_none: Any = None,
    **kwargs: Any,
) -> float | list[float]:
    """Milliseconds of a call, with a cold cache: of everything that Inductor times on the GPU.

    Args:
        original: Inductor's measurement; not used.
        self: the benchmarker.
        _callable: launches what is timed; Inductor also passes it by name.
        args: how many rounds of which kind, in Inductor's measurement; not used.
        return_mode: ``"min"``, ``"median"``, ``"mean"``, or ``"all"`` for a list.
        grad_to_none: not used: nothing here has gradients.
        kwargs: as ``args``.
    """
    del original, args, grad_to_none
    if not kwargs.get("is_vetted_benchmarking"):
        benchmarking.may_ban_benchmarking()  # torch._inductor.config.deterministic
    buffer = torch.empty(self.L2_cache_size, dtype=torch.int8, device="cuda")
    _callable()  # compiles, allocates, fails
    torch.cuda.synchronize()
    start = time.perf_counter()
    trial = _run(_callable, buffer, _TRIAL_ROUNDS)
    host_s = (time.perf_counter() - start) / _TRIAL_ROUNDS
    torch.cuda.synchronize()
    gpu_s = min(trial()) / 1e3
    rounds = max(1, min(ROUNDS, int(_LONGEST_MEASUREMENT_S / max(gpu_s, host_s, 1e-6))))
    spin_s = min(host_s * rounds * _MARGIN, _LONGEST_SPIN_S)
    torch.cuda._sleep(int(spin_s * _MOST_CYCLES_PER_SECOND))
    measured = _run(_callable, buffer, rounds)
    torch.cuda.synchronize()
    times = measured()
    if return_mode == "all":
        return times
    summaries: dict[str, Callable[[list[float]], float]] = {
        "min": min,
        "median": statistics.median,
        "mean": statistics.fmean,
    }
    return summaries[return_mode](times)


def _run(launch: Callable[[], Any], buffer: torch.Tensor, rounds: int) -> Callable[[], list[float]]:
    """Send rounds of clearing the cache and launching; what is returned gives their times in ms."""
    pairs = []
    for _ in range(rounds):
        pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        buffer.zero_()
        pair[0].record()
        launch()
        pair[1].record()
        pairs.append(pair)
    return lambda: [start.elapsed_time(end) for start, end in pairs]
