"""Time of a token, or of a prompt of 512, of language models with a cache, against the GPU's limit.

Each model is lowered in a process that sees no GPU, by default and with ``max_autotune``, and runs
with CUDA graphs, calls in a row; with ``--compiled`` torch.compile with max-autotune is timed in a
process of its own. Errors are against the scores of the model itself on the CPU. The limit is the
bytes of the weights that are read over the bandwidth at which ``torch.sum`` reads 2 GiB in the same
run, or, of a prompt, the products with them at the speed of PyTorch's product of
8192 x 8192 x 8192, bfloat16.

    python benchmarks/cuda_decode.py --target h200
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import environment
import gpu_models
import gpu_times
import torch
from torch.nn.utils import parametrize

RESULTS = Path(__file__).parent / "results" / "cuda_decode.json"
WAYS = {"default": False, "max_autotune": True}
COMPILED = "torch.compile"
ROUNDS, CALLS = 15, 50


def lower(name: str, way: str, target: str, output: str) -> None:
    """Lower one model, and save what is asked of it beside; run in a process of its own."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CudaPartitioner

    model, inputs = gpu_models.TOKENS[name]()
    exported = torch.export.export(model, inputs)
    start = time.perf_counter()
    partitioner = CudaPartitioner(target=target, max_autotune=WAYS[way])
    program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    print(f"lowered {name} {way} in {time.perf_counter() - start:.1f} s", flush=True)
    program.save(output)
    with torch.no_grad():
        scores = model(*inputs)
    tokens = inputs[0].numel()
    products = products_of(model, tokens) if name in gpu_models.PROMPTS else 0
    torch.save((inputs, scores, nbytes_read(model), products), f"{output}.pt")


def time_compiled(name: str, output: str) -> None:
    """Time torch.compile; run in a process of its own."""
    model, inputs = gpu_models.TOKENS[name]()
    model, inputs = model.cuda(), tuple(one.cuda() for one in inputs)
    with torch.no_grad():
        compiled = torch.compile(model, mode="max-autotune")
        Path(output).write_text(json.dumps({"us": row_us(lambda: compiled(*inputs))}))


def row_us(call: Callable[[], Any]) -> float:
    """Median microseconds of a call in a row of many, the host's share included."""
    for _ in range(10):
        call()
    found = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - start) * 1e6 / CALLS)
    return round(statistics.median(found), 1)


def bandwidth() -> float:
    """Bytes a microsecond at which ``torch.sum`` reads 2 GiB."""
    data = torch.ones(1 << 29, device="cuda")
    for _ in range(3):
        data.sum()
    return data.nbytes / gpu_times.gpu_us(data.sum, 20)


def arithmetic() -> float:
    """Multiplications a microsecond, each with its sum, of a large product of 16 bits."""
    side = 8192
    x, y = torch.randn(2, side, side, dtype=torch.bfloat16, device="cuda")
    for _ in range(3):
        x @ y
    return side**3 / gpu_times.gpu_us(lambda: x @ y, 20)


def products_of(model: gpu_models.CachedDecoder, tokens: int) -> int:
    """Multiplications of dense weights with all tokens, of the head's with one."""
    parameters = dict(model.named_parameters())
    head = parameters.pop("head.weight").numel()
    matrices = [one.numel() for name, one in parameters.items() if one.dim() > 1 and _is_read(name)]
    return tokens * sum(matrices) + head


def nbytes_read(model: torch.nn.Module) -> float:
    """Bytes of the weights that a token needs."""
    weights = [one for name, one in model.named_parameters() if _is_read(name)]
    experts = [one for one in model.modules() if isinstance(one, gpu_models.Experts)]
    return sum(map(stored_nbytes, weights)) + sum(map(chosen_nbytes, experts))


def _is_read(name: str) -> bool:
    """Whether a token reads all of a parameter, which is not one of chosen experts."""
    return not name.startswith("tokens.") and "_proj" not in name


def chosen_nbytes(experts: gpu_models.Experts) -> float:
    """Bytes of the matrices that a token chooses: codes and scales, or all as they are."""
    bits = {torch.int4: 4, torch.int8: 8}
    nbytes = 0
    for name in ("gate_up_proj", "down_proj"):
        if parametrize.is_parametrized(experts, name):
            codes = experts.parametrizations[name]
            nbytes += codes.original0.numel() * bits[codes[0].dtype] // 8 + codes.original1.nbytes
        else:
            nbytes += experts.get_parameter(name).nbytes
    return nbytes * experts.chosen / experts.router.size(0)


def stored_nbytes(weight: torch.Tensor) -> int:
    """Bytes that a weight needs: of one of few bits, codes and scales, or blocks of them."""
    bits = {torch.int4: 4, torch.int8: 8}.get(getattr(weight, "target_dtype", None))
    if bits is not None:
        return weight.qdata.numel() * bits // 8 + weight.scale.nbytes
    if not hasattr(weight, "__tensor_flatten__"):
        return weight.nbytes
    parts, _ = weight.__tensor_flatten__()
    return sum(getattr(weight, part).nbytes for part in parts)


def measure(name: str, folder: Path, bytes_a_us: float, products_a_us: float) -> dict[str, Any]:
    """Times of all ways whose file is there, and how far their scores are from eager's."""
    from aoti_plugins.runtime import Program

    found: dict[str, Any] = {}
    for way in WAYS:
        path = folder / f"{name}_{way}.pte"
        if path.exists():
            inputs, scores, nbytes, products = torch.load(f"{path}.pt")
            limit = max(nbytes / bytes_a_us, products / products_a_us)
            found["limit"] = {"us": round(limit, 1)}
            options = {"AotiCudaBackend": {"cuda_graphs": True}}
            method = Program(path).method(options=options)
            inputs = tuple(one.cuda() for one in inputs)
            difference = method(*inputs)[0].double().cpu() - scores.double()
            error = (difference.norm() / scores.double().norm()).item()
            time_us = row_us(lambda method=method, inputs=inputs: method(*inputs, copy=False))
            found[way] = {"us": time_us, "relative_error": float(f"{error:.2e}")}
    compiled = folder / f"{name}_{COMPILED}.json"
    return {**found, COMPILED: json.loads(compiled.read_text())} if compiled.exists() else found


def build(name: str, way: str, target: str, folder: Path) -> None:
    """Make one file in a process of its own; says on stderr why it could not."""
    output = folder / f"{name}_{way}.{'json' if way == COMPILED else 'pte'}"
    if output.exists() and (way == COMPILED or Path(f"{output}.pt").exists()):
        return
    hidden = {} if way == COMPILED else {"CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, __file__, "--task", name, way, target, str(output)]
    done = subprocess.run(command, env={**os.environ, **hidden}, check=False)
    if done.returncode:
        print(f"{name} {way}: exit status {done.returncode}", file=sys.stderr, flush=True)


def table(results: dict[str, Any]) -> str:
    """What to read: microseconds, and the limit's share of them."""
    lines = [f"{'':36}{'limit':>10}" + "".join(f"{way:>22}" for way in (*WAYS, COMPILED))]
    for name, times in results.items():
        limit = times["limit"]["us"]
        cells = [
            f"{times[way]['us']:.0f} ({limit / times[way]['us']:.2f})" if way in times else "-"
            for way in (*WAYS, COMPILED)
        ]
        lines.append(f"{name:36}{limit:>10.0f}" + "".join(f"{cell:>22}" for cell in cells))
    return "\n".join([*lines, "microseconds a call, and the share of the limit"])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help=f"of {', '.join(gpu_models.TOKENS)}; all")
    parser.add_argument("--target", default="h100", help="name of this machine's GPU as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--folder", type=Path, help="keep programs here; take those that are here")
    parser.add_argument("--jobs", type=int, default=4, help="programs that are lowered at once")
    parser.add_argument("--compiled", action="store_true", help="time torch.compile, too")
    parser.add_argument("--task", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.task:
        name, way, target, output = chosen.task
        if way == COMPILED:
            time_compiled(name, output)
        else:
            lower(name, way, target, output)
        return
    names = chosen.models or list(gpu_models.TOKENS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(chosen.jobs) as pool:
            list(
                pool.map(lambda one: build(*one, chosen.target, folder), _pairs(names, chosen.ways))
            )
        if chosen.compiled:
            for name in names:
                build(name, COMPILED, chosen.target, folder)
        speeds = bandwidth(), arithmetic()
        results = {
            name: measure(name, folder, *speeds)
            for name in names
            if any((folder / f"{name}_{way}.pte").exists() for way in WAYS)
        }
    found = {
        "bandwidth_tb_per_s": round(speeds[0] / 1e6, 3),
        "product_of_8192_tflops": round(speeds[1] * 2 / 1e6, 1),
        "models": results,
    }
    environment.save(chosen.output, found)
    print(table(results))


def _pairs(names: list[str], ways: list[str]) -> list[tuple[str, str]]:
    return [(name, way) for name in names for way in ways]


if __name__ == "__main__":
    main()
