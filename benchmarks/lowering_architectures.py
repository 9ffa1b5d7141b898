"""Time of lowering small architectures of timm and transformers, with random weights.

Every model has a process of its own, which exports it and lowers it twice. The first lowering finds
precompiled headers and nothing else, as a user's first lowering of a model does; the second finds
what the first has left in the caches. Import and export are not counted, ``to_executorch`` is.
Models are those of ``tests/zoo/catalogue.py``, evenly chosen: thirty of each package. timm,
torchvision and transformers must be installed.

With ``--side-by-side`` a larger machine lowers some models at a time, each on two cores of its own;
no lowering sees a GPU. What ``--output`` has of the same device, target and number side by side is
not lowered again.

    python benchmarks/lowering_architectures.py cuda --target h100
"""

from __future__ import annotations

import argparse
import json
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import environment
from own_process import result_of

RESULTS = Path(__file__).parent / "results" / "lowering_architectures.json"
ZOO = Path(__file__).parent.parent / "tests" / "zoo"
PACKAGES = ("timm", "transformers")
OF_EACH = 30
SLOW = ("timm.sequencer2d_s",)  # measured beside the others, not among them

NAMES = """
import json, sys
sys.path.insert(0, sys.argv[1])
import catalogue
print(json.dumps({"names": list(catalogue.ENTRIES)}))
"""

TASK = """
import json, os, sys, time, warnings
warnings.simplefilter("ignore")
os.sched_setaffinity(0, json.loads(sys.argv[5]))
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
import aoti_plugins
from lowering_stages import timed
sys.path.insert(0, sys.argv[1])
import catalogue

name, device, target = sys.argv[2:5]
make = {"cpu": "CpuPartitioner", "cuda": "CudaPartitioner", "mps": "MpsPartitioner"}[device]
options = {"allow_missing_kernels": True, **({"target": target} if target else {})}
case = catalogue.make(name)
found = {}
with torch.no_grad():
    start = time.perf_counter()
    exported = torch.export.export(case.model, case.calls[0], strict=case.strict)
    found["nodes"] = sum(node.op == "call_function" for node in exported.graph.nodes)
    found["export_s"] = time.perf_counter() - start
    def lower():
        edge = to_edge_transform_and_lower(
            exported,
            partitioner=[getattr(aoti_plugins, make)(**options)],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        edge.to_executorch()
    found |= {which: timed(lower) for which in ("cold", "warm")}
print(json.dumps(found))
"""


def chosen(names: Sequence[str]) -> list[str]:
    """Evenly of each package, as many as there are if these are few."""
    found: list[str] = []
    for package in PACKAGES:
        all_of_it = [n for n in names if n.startswith(f"{package}.") and n not in SLOW]
        count = min(OF_EACH, len(all_of_it))
        found += [all_of_it[index * len(all_of_it) // count] for index in range(count)]
    return found


def forget_models(caches: Path) -> None:
    """Leave what every lowering shares: headers that are compiled, and zig's own libraries."""
    for folder in ("inductor", "triton", "aoti_plugins"):
        for path in (caches / folder).glob("*"):
            if path.name not in ("headers", "zig"):
                shutil.rmtree(path, ignore_errors=True)


def hidden_with(caches: Path) -> dict[str, str]:
    """Variables of a process that sees no GPU and has caches of its own."""
    return {
        "AOTI_PLUGINS_CACHE_DIR": str(caches / "aoti_plugins"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "CUDA_VISIBLE_DEVICES": "",
    }


def lower(
    name: str, device: str, target: str, caches: Path, cores: Sequence[int]
) -> dict[str, Any]:
    """Times of one model; ``{"failed": why}`` where it could not be lowered."""
    forget_models(caches)
    variables = {**hidden_with(caches), "OMP_NUM_THREADS": str(len(cores))}
    how = (name, device, target, json.dumps(cores))
    try:
        return result_of(TASK, str(ZOO), *how, variables=variables)
    except subprocess.CalledProcessError as error:
        return {"failed": f"exit status {error.returncode}"}


def summary(models: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Medians of those models that were lowered and are not slow ones."""
    done = [one for name, one in models.items() if "cold" in one and name not in SLOW]
    return {
        "models": len(done),
        **{
            f"{which} median s": round(statistics.median(o[which]["seconds"] for o in done), 1)
            for which in ("cold", "warm")
            if done
        },
        "failed": sorted(name for name, one in models.items() if "failed" in one),
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print a line."""
    if "failed" in found:
        print(f"{name:44} {found['failed']}", flush=True)
        return
    stages = found["cold"]["stages"]
    most = sorted(stages, key=lambda stage: -stages[stage])[:4]
    times = "".join(f"{found[which]['seconds']:8.1f}" for which in ("cold", "warm"))
    longest = ", ".join(f"{stage} {stages[stage]:.1f}" for stage in most)
    print(f"{name:44}{found['nodes']:6}{times}  {longest}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", choices=("cpu", "cuda", "mps"))
    parser.add_argument("models", nargs="*", help="names of the catalogue; thirty of each package")
    parser.add_argument("--target", default="", help="such as h100; this machine's without it")
    parser.add_argument("--slow", action="store_true", help=f"also {', '.join(SLOW)}")
    parser.add_argument("--side-by-side", type=int, default=1, help="models at a time")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()

    names = options.models or chosen(result_of(NAMES, str(ZOO), variables={})["names"])
    names += [name for name in SLOW if options.slow and name not in names]
    results: dict[str, Any] = {}
    if options.output.exists():
        results = json.loads(options.output.read_text())
    print(f"{'':44}{'ops':>6}{'cold s':>8}{'warm s':>8}  the longest stages of the first, s")
    before = results.get(options.device, {})
    same = (before.get("target"), before.get("side by side")) == (
        options.target,
        options.side_by_side,
    )
    models: dict[str, dict[str, Any]] = dict(before["lowered"]) if same else {}
    names = [name for name in names if name not in models]
    places: queue.Queue[tuple[Path, list[int]]] = queue.Queue()
    storing = threading.Lock()

    def one(name: str) -> None:
        place = places.get()
        try:
            found = lower(name, options.device, options.target, *place)
        finally:
            places.put(place)
        with storing:
            models[name] = found
            show(name, found)
            kept = {key: value for key, value in results.items() if key != "environment"}
            kept[options.device] = {
                "target": options.target,
                "side by side": options.side_by_side,
                "summary": summary(models),
                "versions of models": _versions(),
                "lowered": dict(sorted(models.items())),
            }
            environment.save(options.output, kept)

    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(options.side_by_side) as pool,
    ):
        for index in range(options.side_by_side):
            caches = Path(folder) / str(index)
            cores = [2 * index, 2 * index + 1]
            if not index and names:  # compiles the headers that all have
                first = lower(names[0], options.device, options.target, caches, cores)
                if "failed" in first:
                    sys.exit(f"{names[0]}: {first['failed']}")
            elif names:
                shutil.copytree(Path(folder) / "0", caches)
            places.put((caches, cores))
        list(pool.map(one, names))
    print(json.dumps(summary(models), indent=2))


def _versions() -> dict[str, str]:
    code = """
import importlib.metadata, json
print(json.dumps({name: importlib.metadata.version(name) for name in ("timm", "transformers")}))
"""
    return dict(result_of(code, variables={}))


if __name__ == "__main__":
    main()
