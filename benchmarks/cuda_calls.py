"""Time of a call on the GPU of this machine, with and without CUDA graphs, against PyTorch.

The models of ``gpu_models`` are lowered for the GPU by name, in processes that see none, with
max-autotune. All ways are then timed in this process, in turns, with inputs and outputs on the GPU:
``latency`` is a call with a synchronization after it, ``throughput`` a call in a row of many. The
median round counts. ``compiled`` is ``torch.compile`` with CUDA graphs (mode reduce-overhead).

    python benchmarks/cuda_calls.py --target h100 --output results/cuda_calls.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environment
import gpu_models
import torch
from cuda_programs import row_us, times_us

RESULTS = Path(__file__).parent / "results" / "cuda_calls.json"
MODELS = ("mlp", "transformer_1", "transformer_128", "cnn")
PROGRAMS = {"plain": False, "graphs": True}
ROUNDS = 11
CALLS = 200


def lower(name: str, target: str, folder: Path) -> None:
    """Lower one model, with and without graphs; run in a process of its own."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CudaPartitioner

    model, inputs = gpu_models.MODELS[name]()
    exported = torch.export.export(model, inputs)
    for way, graphs in PROGRAMS.items():
        partitioner = CudaPartitioner(target=target, max_autotune=True, cuda_graphs=graphs)
        edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
        (folder / f"{name}_{way}.pte").write_bytes(edge.to_executorch().buffer)


def lower_all(names: list[str], target: str, folder: Path) -> None:
    """Lower several models at once, where no GPU is seen."""
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, name, "--target", target, "--lower-to", str(folder)],
            env=hidden,
        )
        for name in names
    ]
    for name, process in zip(names, running, strict=True):
        if process.wait():
            print(f"{name} was not lowered", file=sys.stderr, flush=True)


def calls_of(name: str, folder: Path, inputs: Any, model: Any) -> dict[str, Callable[[], Any]]:
    """A function that runs the model for each way."""
    from aoti_plugins.runtime import Program

    compiled = torch.compile(model, mode="reduce-overhead")
    calls: dict[str, Callable[[], Any]] = {
        "eager": lambda: model(*inputs),
        "compiled": lambda: compiled(*inputs),
    }
    for way in PROGRAMS:
        method = Program(folder / f"{name}_{way}.pte").method()
        calls[way] = lambda method=method: method(*inputs, copy=False)[0]
    return calls


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Times of all ways in microseconds, and how far results are from eager's."""
    model, inputs = gpu_models.MODELS[name]()
    model, inputs = model.cuda(), tuple(tensor.cuda() for tensor in inputs)
    with torch.no_grad():
        expected = model(*inputs).double()
        calls = calls_of(name, folder, inputs, model)
        found: dict[str, Any] = {}
        for way, call in calls.items():
            for _ in range(20):
                result = call()
            error = (result.double() - expected).norm() / expected.norm()
            found[way] = {"relative_error": float(f"{error.item():.2e}")}
        latency: dict[str, list[float]] = {way: [] for way in calls}
        throughput: dict[str, list[float]] = {way: [] for way in calls}
        for _ in range(ROUNDS):
            for way, call in calls.items():
                latency[way].append(statistics.median(times_us(call, CALLS)))
                throughput[way].append(row_us(call, CALLS))
    for way, result in found.items():
        result["latency_us"] = round(statistics.median(latency[way]), 2)
        result["throughput_us"] = round(statistics.median(throughput[way]), 2)
    return found


def table(results: dict[str, Any]) -> str:
    """What to read."""
    ways = ("eager", "compiled", *PROGRAMS)
    lines = [f"{'':18}" + "".join(f"{way:>24}" for way in ways)]
    for name, times in results.items():
        cells = [
            "{latency_us:.1f} {throughput_us:.1f} {relative_error:.0e}".format(**times[way])
            for way in ways
        ]
        lines.append(f"{name:18}" + "".join(f"{cell:>24}" for cell in cells))
    lines.append("latency and throughput in microseconds per call, error relative to eager")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all")
    parser.add_argument("--target", default="h100", help="name of this machine's GPU as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--lower-to", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    names = chosen.models or list(MODELS)
    if chosen.lower_to:
        for name in names:
            lower(name, chosen.target, chosen.lower_to)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lower_all(names, chosen.target, folder)
        lowered = [name for name in names if (folder / f"{name}_graphs.pte").exists()]
        results = {name: measure(name, folder) for name in lowered}
    environment.save(chosen.output, {"models": results})
    print(table(results))


if __name__ == "__main__":
    main()
