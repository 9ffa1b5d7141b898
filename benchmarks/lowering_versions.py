"""Time of lowering small architectures with two versions of this package, in turns.

Each lowering has a process and caches of its own, which have precompiled headers and nothing else.
A version is a checkout; native files are those of the installed package. Beside the seconds and the
stages, the seconds of the processors are shown, of the process and of compilers, which others who
use the machine disturb less, and whether both versions made the same program. timm and transformers
must be installed.

    git worktree add BEFORE COMMIT
    python benchmarks/lowering_versions.py BEFORE . cuda --target h100
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import environment
from lowering_architectures import ZOO, forget_models, hidden_with
from own_process import result_of

RESULTS = Path(__file__).parent / "results" / "lowering_versions.json"
MODELS = (
    "transformers.vit",
    "transformers.esm",
    "transformers.glm4",
    "transformers.marian",
    "timm.convnext_atto",
    "timm.mobilenetv3_small_050",
    "timm.efficientvit_b0",
    "timm.skresnet18",
    "timm.beit_base_patch16_224",
)

TASK = """
import hashlib, importlib.machinery, importlib.util, json, os, sys, warnings
warnings.simplefilter("ignore")
checkout, zoo, name, device, target = sys.argv[1:6]
installed = importlib.util.find_spec("aoti_plugins").submodule_search_locations
sys.meta_path.insert(0, importlib.machinery.PathFinder)  # before that of an editable install
sys.path[:0] = [checkout, zoo]
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
import aoti_plugins
assert aoti_plugins.__file__.startswith(os.path.abspath(checkout)), aoti_plugins.__file__
aoti_plugins.__path__.extend(installed)
from lowering_stages import timed
import catalogue

make = {"cpu": "CpuPartitioner", "cuda": "CudaPartitioner", "mps": "MpsPartitioner"}[device]
options = {"allow_missing_kernels": True, **({"target": target} if target else {})}
torch.manual_seed(0)
case = catalogue.make(name)
made = []
def lower():
    edge = to_edge_transform_and_lower(
        exported,
        partitioner=[getattr(aoti_plugins, make)(**options)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    made.append(edge.to_executorch())
with torch.no_grad():
    exported = torch.export.export(case.model, case.calls[0], strict=case.strict)
    before = os.times()
    found = timed(lower)
    after = os.times()
spent = [now - then for now, then in zip(after, before)]
found["process cpu s"], found["compilers cpu s"] = sum(spent[:2]), sum(spent[2:4])
found["sha256"] = hashlib.sha256(bytes(made[0].buffer)).hexdigest()
print(json.dumps(found))
"""


def lowered(checkout: Path, name: str, device: str, target: str, caches: Path) -> dict[str, Any]:
    """Times of one lowering, and the digest of its program."""
    forget_models(caches)
    given = str(checkout), str(ZOO), name, device, target
    return result_of(TASK, *given, variables=hidden_with(caches))


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds of one version."""

    def median(values: list[float]) -> float:
        return round(statistics.median(values), 2)

    stages = {stage for one in found for stage in one["stages"]}
    return {
        **{
            key: median([one[key] for one in found])
            for key in ("seconds", "process cpu s", "compilers cpu s")
        },
        "stages": {s: median([one["stages"].get(s, 0.0) for one in found]) for s in sorted(stages)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="a checkout")
    parser.add_argument("new", type=Path, help="another one")
    parser.add_argument("device", choices=("cpu", "cuda", "mps"))
    parser.add_argument("models", nargs="*", default=MODELS, help="names of the catalogue")
    parser.add_argument("--target", default="", help="such as h100; this machine's without it")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()

    checkouts = {"old": options.old.resolve(), "new": options.new.resolve()}
    how = options.device, options.target
    models: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = {version: Path(folder) / version for version in checkouts}
        for version, checkout in checkouts.items():  # compiles the headers that all have
            lowered(checkout, options.models[0], *how, caches[version])
        for name in options.models:
            rounds = [
                {v: lowered(checkouts[v], name, *how, caches[v]) for v in checkouts}
                for _ in range(options.rounds)
            ]
            digests = {one["sha256"] for each in rounds for one in each.values()}
            models[name] = {
                **{v: summary([each[v] for each in rounds]) for v in checkouts},
                "programs": len(digests),
                "load": os.getloadavg()[0],
            }
            show(name, models[name])
    kept = {"device": options.device, "target": options.target, "rounds": options.rounds}
    environment.save(options.output, {**kept, "lowered": models})
    medians = {v: statistics.median(one[v]["seconds"] for one in models.values()) for v in caches}
    print(json.dumps(medians))


def show(name: str, found: dict[str, Any]) -> None:
    """Print a line."""
    old, new = found["old"], found["new"]
    keys = ("seconds", "process cpu s", "compilers cpu s")
    times = "  ".join(f"{old[key]:6.1f} -> {new[key]:5.1f}" for key in keys)
    stages = ", ".join(
        f"{stage} {seconds:.1f} -> {new['stages'].get(stage, 0.0):.1f}"
        for stage, seconds in old["stages"].items()
        if seconds > 1
    )
    same = "same program" if found["programs"] == 1 else f"{found['programs']} programs"
    print(f"{name:34} {times}  {same}  {stages}", flush=True)


if __name__ == "__main__":
    main()
