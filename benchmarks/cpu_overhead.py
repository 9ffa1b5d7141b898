"""Time of one call, and of loading up to the first result: our program against an AOTI package.

The same exported MLP (64-256-64, float32, batch 4) is lowered with ``CpuPartitioner()`` and
compiled with ``torch._inductor.aoti_compile_and_package``, and both are called from Python with the
same torch tensor. Calls are timed in rounds that alternate between the two, the median round
counts. Loading is timed in fresh processes that have imported what they need.

    python benchmarks/cpu_overhead.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environment
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import models

RESULTS = Path(__file__).parent / "results" / "cpu_overhead.json"

LOAD_OURS = """
import json, sys, time, torch
from aoti_plugins import runtime
runtime.register()
inputs = torch.load(sys.argv[2])
start = time.perf_counter()
method = runtime.Program(sys.argv[1]).method()
loaded = time.perf_counter()
method(*inputs)
print(json.dumps([loaded - start, time.perf_counter() - start]))
"""

LOAD_THEIRS = """
import json, sys, time, torch
import torch._inductor.package
inputs = torch.load(sys.argv[2])
start = time.perf_counter()
model = torch._inductor.aoti_load_package(sys.argv[1])
loaded = time.perf_counter()
model(*inputs)
print(json.dumps([loaded - start, time.perf_counter() - start]))
"""


def build(folder: Path) -> tuple[Path, Path, tuple[torch.Tensor, ...]]:
    """Lower the MLP both ways; returns the program, the package, and the inputs."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner

    model, inputs = models.mlp()
    exported = torch.export.export(model, inputs)
    program = folder / "mlp.pte"
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    program.write_bytes(lowered.to_executorch().buffer)
    package = folder / "mlp.pt2"
    torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
    torch.save(inputs, folder / "inputs.pt")
    return program, package, inputs


def round_of(call: Callable[[], Any], calls: int) -> float:
    """Microseconds per call."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def time_calls(
    ours: Callable[[], Any], theirs: Callable[[], Any], calls: int, rounds: int
) -> dict[str, Any]:
    for call in (ours, theirs):
        round_of(call, max(calls // 5, 1))
    found: dict[str, list[float]] = {"ours": [], "aoti_package": []}
    for _ in range(rounds):
        found["ours"].append(round_of(ours, calls))
        found["aoti_package"].append(round_of(theirs, calls))
    return {
        name: {"median_us": statistics.median(times), "min_us": min(times), "max_us": max(times)}
        for name, times in found.items()
    }


def time_loads(script: str, path: Path, inputs: Path, processes: int) -> dict[str, float]:
    found = []
    for _ in range(processes):
        command = [sys.executable, "-c", script, str(path), str(inputs)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    load, first = (statistics.median(column) * 1e3 for column in zip(*found, strict=True))
    return {"load_ms": load, "load_to_first_result_ms": first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000, help="calls per round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--processes", type=int, default=7, help="fresh processes per load time")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()

    from aoti_plugins.runtime import Program

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, package, inputs = build(folder)
        method = Program(program).method()
        model = torch._inductor.aoti_load_package(str(package))
        with torch.no_grad():
            torch.testing.assert_close(method(*inputs)[0], model(*inputs), rtol=1e-4, atol=1e-5)
            calls = time_calls(
                lambda: method(*inputs), lambda: model(*inputs), options.calls, options.rounds
            )
        saved = folder / "inputs.pt"
        loads = {
            "ours": time_loads(LOAD_OURS, program, saved, options.processes),
            "aoti_package": time_loads(LOAD_THEIRS, package, saved, options.processes),
        }
        sizes = {"ours": program.stat().st_size, "aoti_package": package.stat().st_size}
    results = {
        "what": "MLP 64-256-64, float32, batch 4, called from Python",
        "settings": {key: value for key, value in vars(options).items() if key != "output"},
        "per_call": calls,
        "per_call_ratio": calls["ours"]["median_us"] / calls["aoti_package"]["median_us"],
        "load": loads,
        "file_nbytes": sizes,
    }
    environment.save(options.output, results)
    print(f"{'':14}{'per call':>12}{'load':>12}{'to 1st result':>16}{'file':>12}")
    for who in ("ours", "aoti_package"):
        print(
            f"{who:14}{calls[who]['median_us']:>9.1f} us{loads[who]['load_ms']:>9.1f} ms"
            f"{loads[who]['load_to_first_result_ms']:>13.1f} ms{sizes[who] / 1e3:>9.0f} kB"
        )
    print(f"ratio of the calls: {results['per_call_ratio']:.2f}; written to {options.output}")


if __name__ == "__main__":
    main()
