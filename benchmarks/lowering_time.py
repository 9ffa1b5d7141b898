"""Time of lowering the MLP for a GPU, without one: cold and warm, with the stages.

Every case runs in processes of its own, which import first and lower twice; the median of the runs
counts. The cases differ in what the caches on disk hold:

    cold           nothing
    cold kernels   precompiled headers, as after the first lowering of any model
    warm           everything, as after the first lowering of this model

    python benchmarks/lowering_time.py
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import environment
from own_process import result_of

RESULTS = Path(__file__).parent / "results" / "lowering_time.json"

LOWER = """
import json, sys, time
start = time.perf_counter()
import torch
from executorch.exir import to_edge_transform_and_lower
from aoti_plugins import CudaPartitioner
from lowering_stages import timed
sys.path.insert(0, sys.argv[1])
import models

imported = time.perf_counter()
found = {"import": imported - start, "lowerings": []}
for _ in range(2):
    exported = torch.export.export(*models.mlp())
    def lower():
        edge = to_edge_transform_and_lower(
            exported, partitioner=[CudaPartitioner(target=sys.argv[2])]
        )
        edge.to_executorch()
    found["lowerings"].append(timed(lower))
print(json.dumps(found))
"""


def lower(caches: Path, target: str) -> dict[str, Any]:
    """Import time, and two lowerings in one process."""
    variables = {
        "AOTI_PLUGINS_CACHE_DIR": str(caches / "aoti_plugins"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
    examples = Path(__file__).parent.parent / "examples"
    return result_of(LOWER, str(examples), target, variables=variables)


def forget_kernels(caches: Path) -> None:
    """Leave only what every lowering shares."""
    for folder in ("inductor", "triton", "aoti_plugins/blobs"):
        shutil.rmtree(caches / folder, ignore_errors=True)


def measure(target: str, runs: int) -> dict[str, list[dict[str, Any]]]:
    """Runs of every case."""
    found: dict[str, list[dict[str, Any]]] = {"cold": [], "cold kernels": [], "warm": []}
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            caches = Path(name)
            found["cold"].append(lower(caches, target))
            forget_kernels(caches)
            found["cold kernels"].append(lower(caches, target))
            found["warm"].append(lower(caches, target))
    return found


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the runs."""
    result: dict[str, Any] = {"import_s": statistics.median(run["import"] for run in runs)}
    for index, name in enumerate(("first", "second_in_process")):
        lowerings = [run["lowerings"][index] for run in runs]
        stages = {stage for one in lowerings for stage in one["stages"]}
        result[name] = {
            "seconds": statistics.median(one["seconds"] for one in lowerings),
            "stages": {
                stage: statistics.median(one["stages"].get(stage, 0.0) for one in lowerings)
                for stage in sorted(stages)
            },
        }
    return result


def ratios(cases: dict[str, dict[str, Any]]) -> dict[str, float]:
    """How much slower the first lowering is than later ones."""
    cold, headers, warm = (cases[name] for name in ("cold", "cold kernels", "warm"))
    first, second = "first", "second_in_process"
    pairs = {
        "cold / second in the same process": (cold[first], cold[second]),
        "cold / warm in a new process": (cold[first], warm[first]),
        "cold kernels / second in the same process": (headers[first], headers[second]),
        "cold kernels / warm in a new process": (headers[first], warm[first]),
    }
    return {name: one["seconds"] / other["seconds"] for name, (one, other) in pairs.items()}


def show(cases: dict[str, dict[str, Any]]) -> None:
    """Print a table."""
    print(f"{'':16}{'import':>10}{'first':>10}{'again':>10}")
    for name, case in cases.items():
        times = (case["import_s"], case["first"]["seconds"], case["second_in_process"]["seconds"])
        print(f"{name:16}" + "".join(f"{seconds:>8.2f} s" for seconds in times))
        for stage, seconds in case["first"]["stages"].items():
            print(f"    {stage:22}{seconds:>10.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="h100")
    parser.add_argument("--runs", type=int, default=3, help="processes per case")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()

    load_before = os.getloadavg()[0]
    cases = {name: summary(runs) for name, runs in measure(options.target, options.runs).items()}
    results = {
        "what": "MLP 64-256-64, float32, batch 4: export excluded, to_executorch included",
        "settings": {key: value for key, value in vars(options).items() if key != "output"},
        "load_average": {"before": load_before, "after": os.getloadavg()[0]},
        "cases": cases,
        "ratios": ratios(cases),
    }
    environment.save(options.output, results)
    show(cases)
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
