"""What the marks around kernels cost a call that nobody watches: the same code with and without.

A chain of small layers, for which a mark is as large a part of a call as it gets, is lowered twice,
the second time without marks. Calls are timed in rounds that alternate between the two; the median
of the rounds' ratios counts.

    python benchmarks/kernel_marks.py
    python benchmarks/kernel_marks.py --target h100 --output kernel_marks_cuda.json

With a target the calls run on that NVIDIA GPU, inputs and outputs in host memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any
from unittest import mock

import environment
import torch
from torch import nn

RESULTS = Path(__file__).parent / "results" / "kernel_marks.json"
LAYERS, WIDTH = 16, 32


def build(marked: bool, target: str | None) -> bytes:
    """Lower the chain for a GPU, without one for the CPU; returns the program."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner, CudaPartitioner
    from aoti_plugins.lowering.inductor import capture

    torch.manual_seed(0)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    exported = torch.export.export(nn.Sequential(*layers).eval(), (torch.ones(1, WIDTH),))
    plain = mock.patch.object(capture, "with_marks", lambda wrapper, sites, left_out: (wrapper, ()))
    if not marked:
        plain.start()
    try:
        partitioner = CudaPartitioner(target=target) if target else CpuPartitioner()
        edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
        return edge.to_executorch().buffer
    finally:
        if not marked:
            plain.stop()


def measure(calls: int, rounds: int, target: str | None) -> dict[str, Any]:
    """Time both in turns; microseconds."""
    from aoti_plugins.runtime import Program

    x = torch.ones(1, WIDTH)
    marked, plain = Program(build(True, target)), Program(build(False, target))
    watched = marked.method(trace=True)
    methods = {"marked": marked.method(), "plain": plain.method(), "watched": watched}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(rounds + 1):
        order = list(methods.items())
        for name, method in order if number % 2 else reversed(order):
            start = time.perf_counter()
            for _ in range(calls):
                method(x)
            if number:
                times[name].append((time.perf_counter() - start) / calls * 1e6)
    ratios = [a / b for a, b in zip(times["marked"], times["plain"], strict=True)]
    return {
        "kernels": sum(event.is_kernel for event in watched.events()),
        "call_us": {name: round(statistics.median(found), 3) for name, found in times.items()},
        "fastest_us": {name: round(min(found), 3) for name, found in times.items()},
        "marked_to_plain": round(statistics.median(ratios), 4),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--target", help="an NVIDIA GPU, by its name as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    result = measure(arguments.calls, arguments.rounds, arguments.target)
    result["environment"] = environment.describe()
    arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
