"""Time and memory of lowering for the CPU, against plain AOTInductor on the same graph.

Each lowering runs in a process of its own, which first does the same to a tiny model, so that
precompiled headers are there and nothing of the model is. Export is not counted. Memory is the
most that the process itself had (resident), and the most that one compiler process had.

    python benchmarks/lowering_cost.py
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import environment
from own_process import result_of

RESULTS = Path(__file__).parent / "results" / "lowering_cost.json"
EXAMPLES = Path(__file__).parent.parent / "examples"
WAYS = ("ours", "aotinductor")
MOST = 1.3

TASK = """
import json, resource, sys, time
import torch
from torch import nn
sys.path.insert(0, sys.argv[1])
import models

def ours(exported):
    from executorch.exir import to_edge_transform_and_lower
    from aoti_plugins import CpuPartitioner
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    return edge.to_executorch().buffer

def aotinductor(exported):
    return torch._inductor.aot_compile(exported.module(), exported.example_inputs[0])

def peak(whose):
    return resource.getrusage(whose).ru_maxrss * 1024

lower = {"ours": ours, "aotinductor": aotinductor}[sys.argv[2]]
lower(torch.export.export(nn.Softmax(-1), (torch.randn(2, 3),)))
model, inputs = models.MODELS[sys.argv[3]]()
exported = torch.export.export(model, inputs)
tensors = [*model.parameters(), *model.buffers()]
before = peak(resource.RUSAGE_SELF)
start = time.perf_counter()
kept = lower(exported)
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "process_nbytes": peak(resource.RUSAGE_SELF),
    "process_before_nbytes": before,
    "compiler_nbytes": peak(resource.RUSAGE_CHILDREN),
    "weights_nbytes": sum(tensor.nbytes for tensor in tensors),
}))
"""


def lower(way: str, model: str) -> dict[str, float]:
    """One lowering in a process of its own, with caches of its own."""
    with tempfile.TemporaryDirectory() as caches:
        variables = {
            "AOTI_PLUGINS_CACHE_DIR": f"{caches}/aoti_plugins",
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        }
        return result_of(TASK, str(EXAMPLES), way, model, variables=variables)


def measure(model: str, runs: int) -> dict[str, Any]:
    """Medians of both ways, and ours over AOTInductor's."""
    all_runs = {way: [lower(way, model) for _ in range(runs)] for way in WAYS}
    found: dict[str, Any] = {
        way: {key: statistics.median(run[key] for run in each) for key in each[0]}
        for way, each in all_runs.items()
    }
    ours, plain = found["ours"], found["aotinductor"]
    allowed = ours["weights_nbytes"] + MOST * plain["process_nbytes"]
    found["time_ratio"] = ours["seconds"] / plain["seconds"]
    found["memory_over_allowed"] = ours["process_nbytes"] / allowed
    return found


def table(models: dict[str, dict[str, Any]]) -> str:
    """What to read."""
    header = ("model", "ours", "AOTInductor", "ratio", "ours", "AOTInductor", "weights")
    lines = ["".join(f"{cell:>14}" for cell in header)]
    for name, found in models.items():
        ours, plain = found["ours"], found["aotinductor"]
        times = f"{ours['seconds']:12.1f} s{plain['seconds']:12.1f} s{found['time_ratio']:14.2f}"
        memory = "".join(
            f"{nbytes / 2**20:10.0f} MiB"
            for nbytes in (ours["process_nbytes"], plain["process_nbytes"], ours["weights_nbytes"])
        )
        lines.append(f"{name:>14}{times}{memory}")
    return "\n".join(lines)


def main() -> None:
    sys.path.insert(0, str(EXAMPLES))
    import models

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(models.MODELS)}; all")
    parser.add_argument("--runs", type=int, default=1, help="processes per model and way")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()

    found = {}
    for name in options.models or models.MODELS:
        found[name] = measure(name, options.runs)
        settings = {"runs": options.runs, "load_average": os.getloadavg()[0]}
        environment.save(options.output, {"settings": settings, "models": found})
    print(table(found))
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
