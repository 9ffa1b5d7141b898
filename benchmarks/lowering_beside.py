"""Time to make a program of a language model on a GPU host, beside others who measure there.

The model is one of ``gpu_models.DECODERS``; its input is a token, or a prompt of 512 if ``_prompt``
is behind its name. Each way has a process of its own and caches of its own, which are empty; what
is timed:

    ours           export excluded, ``to_edge_transform_and_lower`` and ``to_executorch``
    measured       the same with ``max_autotune=True``, which measures on this GPU
    cpu            as ours, for this machine's processor
    torch.compile  the first call with ``mode="max-autotune"``
    upstream       as ours, with ``CudaPartitioner`` of the executorch wheel

    python benchmarks/lowering_beside.py llama_16_layers --output FILE

What needs no GPU is timed without one as well, for a target that is named:

    python benchmarks/lowering_beside.py llama_4_layers llama_32_layers --ways ours --target h100

``--not-the-first`` empties the caches but for the headers that all lowerings share, which another
lowering has compiled there before.

``--profile FOLDER`` runs our ways and upstream's under cProfile, which makes them about twice as
slow, and leaves a file for each, which ``python -m pstats`` reads; no times are stored then.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import environment
from lowering_architectures import forget_models
from own_process import result_of

RESULTS = Path(__file__).parent / "results" / "lowering_beside.json"

_LOWERED = """
import cProfile, json, time
profile = cProfile.Profile() if sys.argv[3:] else None
start = time.perf_counter()
if profile is not None:
    profile.enable()
to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
if profile is not None:
    profile.disable()
    profile.dump_stats(sys.argv[3])
print(json.dumps({"seconds": time.perf_counter() - start}))
"""

_EXPORTED = """
import sys, torch, gpu_models
from executorch.exir import to_edge_transform_and_lower
model, inputs = gpu_models.DECODERS[sys.argv[1].removesuffix("_prompt")]()
if sys.argv[1].endswith("_prompt"):
    model, inputs = gpu_models.prompt((model, inputs))
exported = torch.export.export(model, inputs)
"""

_OURS = """
from aoti_plugins import CudaPartitioner
partitioner = CudaPartitioner(target=sys.argv[2], max_autotune={measured})
"""

_CPU = """
from aoti_plugins import CpuPartitioner
partitioner = CpuPartitioner()
"""

_UPSTREAM = """
from executorch.backends.cuda.cuda_backend import CudaBackend
from executorch.backends.cuda.cuda_partitioner import CudaPartitioner
partitioner = CudaPartitioner([CudaBackend.generate_method_name_compile_spec("forward")])
"""

_COMPILED = """
import json, sys, time, torch, gpu_models
model, inputs = gpu_models.DECODERS[sys.argv[1]]()
model, inputs = model.cuda(), [one.cuda() for one in inputs]
torch.zeros(1, device="cuda")
start = time.perf_counter()
with torch.no_grad():
    torch.compile(model, mode="max-autotune")(*inputs)
    torch.cuda.synchronize()
print(json.dumps({"seconds": time.perf_counter() - start}))
"""

WAYS = {
    "ours": _EXPORTED + _OURS.format(measured=False) + _LOWERED,
    "measured": _EXPORTED + _OURS.format(measured=True) + _LOWERED,
    "cpu": _EXPORTED + _CPU + _LOWERED,
    "torch.compile": _COMPILED,
    "upstream": _EXPORTED + _UPSTREAM + _LOWERED,
}


def measure(
    name: str, way: str, target: str, profile: Path | None = None, is_first: bool = True
) -> dict[str, Any]:
    """Seconds of a way, or why there are none.

    Args:
        name: of the model.
        way: one of ``WAYS``.
        target: of our ways.
        profile: a file that cProfile writes.
        is_first: whether nothing was lowered with these caches before.
    """
    with tempfile.TemporaryDirectory() as caches:
        variables = {
            "AOTI_PLUGINS_CACHE_DIR": f"{caches}/aoti_plugins",
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
            "TRITON_CACHE_DIR": f"{caches}/triton",
        }
        try:
            if not is_first:
                result_of(WAYS[way], name, target, variables=variables)
                forget_models(Path(caches))
            found = result_of(
                WAYS[way], name, target, *([str(profile)] if profile else []), variables=variables
            )
        except subprocess.CalledProcessError as error:
            said = error.stderr.strip() or f"exit status {error.returncode}"
            return {"failed": said.splitlines()[-1]}
    return {"seconds": round(found["seconds"], 1)}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="names in gpu_models.DECODERS, or NAME_prompt")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--target", default="native", help="of our ways: this GPU, or a name")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--not-the-first", action="store_true", help="headers are there")
    parser.add_argument("--profile", type=Path, help="a folder for files of cProfile")
    chosen = parser.parse_args()
    if chosen.profile:
        chosen.profile.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    for name in chosen.models:
        found[name] = {}
        for way in chosen.ways:
            profile = chosen.profile and chosen.profile / f"{name}.{way}.prof"
            found[name][way] = measure(name, way, chosen.target, profile, not chosen.not_the_first)
            print(f"{name:32}{way:16}{found[name][way]}", flush=True)
            if not profile:
                first = {"first in its caches": not chosen.not_the_first}
                environment.save(chosen.output, {**first, "models": found})


if __name__ == "__main__":
    main()
