"""Time that work takes on the GPU, without the host's share.

The GPU spins until the host has sent all calls of a round; two sides take turns, and the median
round counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

ROUNDS, ROUND_US = 9, 4000


def row_us(call: Callable[[], Any], count: int) -> float:
    """Microseconds of ``count`` calls in a row on the GPU, without the host's share."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(2_000_000 + 100_000 * count)  # more cycles than the host takes
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1000


def gpu_us(call: Callable[[], Any], count: int) -> float:
    """Microseconds of one call, as a long row takes longer than a short one.

    What a row takes once does not count: up to 100 us pass until a stream that waited for another
    one goes on.
    """
    short = count // 5
    return (row_us(call, count) - row_us(call, short)) / (count - short)


def compare(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, float]:
    """Median times of both sides in microseconds, in turns."""
    for call in (ours, theirs):
        for _ in range(3):
            call()
    count = max(5, min(100, int(ROUND_US / gpu_us(theirs, 5))))
    times: dict[str, list[float]] = {"ours": [], "torch": []}
    for _ in range(ROUNDS):
        times["ours"].append(gpu_us(ours, count))
        times["torch"].append(gpu_us(theirs, count))
    median = {side: statistics.median(found) for side, found in times.items()}
    return {
        "ours_us": round(median["ours"], 2),
        "torch_us": round(median["torch"], 2),
        "speed": round(median["torch"] / median["ours"], 3),
    }
