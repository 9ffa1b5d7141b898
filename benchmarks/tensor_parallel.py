"""Language models on one GPU and on two: tokens a second, prefill, and all-reduce against NCCL's.

Models have random weights. Each is lowered in a process that sees no GPU, for one rank and for all,
and runs with CUDA graphs, one process a rank. All-reduce of 16 kB and of 16 MB is timed in a graph
of many, as a program and with NCCL alone through PyTorch, in the same run. With ``--gpu-memory``
each GPU has no more: what one rank is told then, which does not fit, is part of the result.

    python benchmarks/tensor_parallel.py --target h200
    python benchmarks/tensor_parallel.py --device cpu --model tiny    # tries the script
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import environment
import numpy as np

RESULTS = Path(__file__).parent / "results" / "tensor_parallel.json"
SIZES: dict[str, dict[str, int]] = {
    "8b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    "8b_4_layers": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 4,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32064,
    },
    "70b": {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
    },
}
PROMPTS = {"8b": 2048, "8b_4_layers": 2048, "70b": 2048, "tiny": 16}
ROUNDS, CALLS = 9, 30
CALLS_OF_SUMS = {"cuda": CALLS, "cpu": 3}
"""In a row; a processor takes milliseconds for one."""
SUMS = {8192: 64, 8192 << 10: 8}
"""Elements of bfloat16 (16 kB, 16 MB), and how many all-reduces are in the graph that is timed."""


def language_methods(size: str, num_ranks: int, dtype: str) -> Any:
    """``prefill`` and ``decode`` of a Llama with random weights, for some ranks."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    from aoti_plugins.language.export import export_decoder
    from aoti_plugins.language.ranks import export_for_ranks

    config = LlamaConfig(**SIZES[size], max_position_embeddings=4096)
    with repeated_numbers(config.initializer_range):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    model.requires_grad_(False)

    def export(part: Any) -> Any:
        return export_decoder(part, PROMPTS[size] * 2, "prefill-decode")

    return export(model) if num_ranks == 1 else export_for_ranks(model, num_ranks, export)


@contextlib.contextmanager
def repeated_numbers(deviation: float) -> Iterator[None]:
    """Weights are made of the same random numbers again and again: billions would take minutes.

    Each begins with others, so that no two are equal.
    """
    import torch

    numbers = torch.randn(10_000_019, generator=torch.Generator().manual_seed(0)) * deviation
    first = itertools.count(step=7919)

    def fill(weight: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        del args, kwargs
        flat = weight.detach().view(-1)
        turned = numbers.roll(next(first))
        for start in range(0, flat.numel(), turned.numel()):
            part = flat[start : start + turned.numel()]
            part.copy_(turned[: part.numel()])
        return weight

    with (
        mock.patch.object(torch.Tensor, "normal_", fill),
        mock.patch.object(torch.Tensor, "uniform_", fill),
    ):
        yield


def sum_method(num_ranks: int, dtype: str) -> Any:
    """``sums_NUMEL``: a vector, all-reduced again and again."""
    import torch

    from aoti_plugins import parallel

    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            average = int(parallel.Reduction.AVERAGE)
            for _ in range(SUMS[x.numel()]):
                x = torch.ops.aoti_plugins.all_reduce(x, average, num_ranks, num_ranks, 1)
            return x

    vectors = {numel: torch.ones(numel, dtype=getattr(torch, dtype)) for numel in SUMS}
    return {f"sums_{numel}": torch.export.export(Sums(), (x,)) for numel, x in vectors.items()}


def lower(what: str, num_ranks: int, chosen: argparse.Namespace, folder: Path) -> None:
    """Lower a model or the sums; run in a process of its own."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner, CudaPartitioner

    start = time.perf_counter()
    name = f"{what}_{num_ranks}"
    dtype = "bfloat16" if chosen.device == "cuda" else "float32"
    is_sums = what == "sums"
    methods = sum_method(num_ranks, dtype) if is_sums else language_methods(what, num_ranks, dtype)
    if chosen.device == "cuda":
        partitioner: Any = CudaPartitioner(
            target=chosen.target, cuda_graphs=True, external_data=name
        )
    else:
        partitioner = CpuPartitioner(external_data=name)
    program = to_edge_transform_and_lower(methods, partitioner=[partitioner]).to_executorch()
    program.write_tensor_data_to_file(str(folder))
    program.save(str(folder / f"{name}.pte"))
    print(f"lowered {name} in {time.perf_counter() - start:.1f} s", flush=True)


def time_rank(what: str, num_ranks: int, chosen: argparse.Namespace, folder: Path) -> None:
    """Time a program on this rank; rank 0 writes the times. Run in a process of its own."""
    from aoti_plugins.errors import ProgramError
    from aoti_plugins.runtime import Program, current_place

    name = f"{what}_{num_ranks}"
    common = folder / f"{name}.ptd"
    data_files = [common] if num_ranks == 1 and common.exists() else []
    put, wait = _placing(chosen.device)
    found: dict[str, Any] = {}
    taken = take_memory(chosen.gpu_memory) if chosen.gpu_memory else None
    try:
        with Program(folder / f"{name}.pte", data_files=data_files) as program:
            if what == "sums":
                found["us_of_a_sum"] = {
                    str(numel): time_sum(
                        program.method(f"sums_{numel}"), numel, put, wait, chosen.device
                    )
                    for numel in SUMS
                }
            else:
                found |= time_language(program, what, put, wait)
    except ProgramError as error:
        if taken is None or num_ranks > 1:
            raise
        found["refused"] = str(error)
    del taken
    if num_ranks > 1 and what == "sums" and chosen.device == "cuda":
        found["us_of_nccl_alone"] = time_nccl(num_ranks)
    if current_place()[0] == 0:
        (folder / f"{name}.json").write_text(json.dumps(found))


def take_memory(gigabytes: float) -> Any:
    """Memory of this rank's GPU, so much that no more than some GB of 10^9 bytes are left."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return torch.empty(max(free - int(gigabytes * 1e9), 0), dtype=torch.uint8, device="cuda")


def time_sum(
    method: Any, numel: int, put: Callable[..., Any], wait: Callable[[], None], device: str
) -> float:
    """Microseconds of one all-reduce in a call of many."""
    x = put(np.ones(numel, np.float32), True)
    calls = CALLS_OF_SUMS[device]
    return round(row_us(lambda: method(x, copy=False), wait, calls) / SUMS[numel], 2)


def time_language(
    program: Any, size: str, put: Callable[..., Any], wait: Callable[[], None]
) -> dict[str, Any]:
    """Times of one token and of a prompt, and which tokens were likeliest."""
    length = PROMPTS[size]
    prefill, decode = program.method("prefill"), program.method("decode")
    prompt = put(np.arange(length, dtype=np.int64)[None] % SIZES[size]["vocab_size"])
    positions = put(np.arange(length, dtype=np.int64))
    tokens, position = put(np.array([[7]])), put(np.array([length]))
    logits = np.asarray(_on_host(prefill(prompt, positions)[0]), np.float64).reshape(-1)
    after = np.asarray(_on_host(decode(tokens, position)[0]), np.float64).reshape(-1)
    return {
        "us_of_a_token": row_us(lambda: decode(tokens, position, copy=False), wait),
        "us_of_a_prompt": row_us(lambda: prefill(prompt, positions, copy=False), wait, 5),
        "logits": [logits[:64].tolist(), after[:64].tolist()],
        "likeliest": [int(logits.argmax()), int(after.argmax())],
    }


def time_nccl(num_ranks: int) -> dict[str, float]:
    """Microseconds of one all-reduce by PyTorch's NCCL, in a graph of as many; by elements."""
    import torch
    import torch.distributed as dist

    from aoti_plugins.runtime import current_place

    rank, _ = current_place()
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=num_ranks)
    found = {}
    for numel, count in SUMS.items():
        x = torch.ones(numel, dtype=torch.bfloat16, device="cuda")
        for _ in range(3):
            dist.all_reduce(x, dist.ReduceOp.AVG)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                dist.all_reduce(x, dist.ReduceOp.AVG)
        found[str(numel)] = round(row_us(graph.replay, torch.cuda.synchronize) / count, 2)
        dist.barrier()
        del graph
    dist.destroy_process_group()
    return found


def row_us(call: Callable[[], Any], wait: Callable[[], None], calls: int = CALLS) -> float:
    """Median microseconds of a call in a row of many."""
    for _ in range(5):
        call()
    found = []
    for _ in range(ROUNDS):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        found.append((time.perf_counter() - start) * 1e6 / calls)
    return round(statistics.median(found), 2)


def _placing(device: str) -> tuple[Callable[..., Any], Callable[[], None]]:
    """How inputs get to this rank's GPU, and how its work is waited for."""
    if device == "cpu":
        return (lambda value, half=False: value), (lambda: None)
    import torch

    from aoti_plugins.runtime import current_place

    torch.cuda.set_device(current_place()[0])

    def put(value: Any, half: bool = False) -> Any:
        found = torch.from_numpy(value).cuda()
        return found.bfloat16() if half else found

    return put, torch.cuda.synchronize


def _on_host(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else value.float().cpu().numpy()


def run(task: str, what: str, num_ranks: int, chosen: argparse.Namespace, folder: Path) -> None:
    """Run a task in processes of their own.

    Raises:
        SystemExit: one of them failed.
    """
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if task == "lower" else {}
    count = 1 if task == "lower" else num_ranks
    command = [sys.executable, __file__, "--device", chosen.device, "--target", chosen.target]
    command += [f"--gpu-memory={chosen.gpu_memory}"]
    command += ["--task", task, what, str(num_ranks), str(folder)]
    meeting = str(uuid.uuid4())
    places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(chosen.port)}
    processes = []
    for rank in range(count):
        ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), **places}
        ranks = {**ranks, "AOTI_PLUGINS_RANK_MEETING": meeting} if count > 1 else {}
        processes.append(subprocess.Popen(command, env={**os.environ, **hidden, **ranks}))
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"{task} {what} on {num_ranks} ranks failed")


def report(size: str, num_ranks: int, folder: Path) -> dict[str, Any]:
    """What was measured, and ratios."""
    found = {
        str(count): json.loads((folder / f"{size}_{count}.json").read_text())
        for count in (1, num_ranks)
        if (folder / f"{size}_{count}.json").exists()
    }
    sums = json.loads((folder / f"sums_{num_ranks}.json").read_text())
    result: dict[str, Any] = {"model": size, "ranks": found, "all_reduce": sums}
    several = found[str(num_ranks)]
    if "logits" in found.get("1", {}):
        one = found["1"]
        for name in ("token", "prompt"):
            ratio = one[f"us_of_a_{name}"] / several[f"us_of_a_{name}"]
            result[f"speedup_of_a_{name}"] = round(ratio, 3)
        pairs = [np.array([np.array(x["logits"]) for x in (one, several)])]
        one_logits, other_logits = pairs[0]
        error = np.linalg.norm(one_logits - other_logits) / np.linalg.norm(one_logits)
        result["relative_error"] = float(f"{error:.2e}")
    if "us_of_nccl_alone" in sums:
        alone = sums["us_of_nccl_alone"]
        ratios = {numel: us / alone[numel] for numel, us in sums["us_of_a_sum"].items()}
        result["all_reduce_over_nccl"] = {k: round(ratio, 3) for k, ratio in ratios.items()}
    for one in found.values():
        one.pop("logits", None)
    return result


def table(result: dict[str, Any]) -> str:
    """What to read."""
    lines = [f"{result['model']:10}{'tokens/s':>12}{'prompt ms':>12}"]
    for count, times in result["ranks"].items():
        if "refused" in times:
            lines.append(f"{count + ' rank(s)':10} {times['refused']}")
            continue
        token, prompt = 1e6 / times["us_of_a_token"], times["us_of_a_prompt"] / 1e3
        lines.append(f"{count + ' rank(s)':10}{token:>12.1f}{prompt:>12.2f}")
    if "speedup_of_a_token" in result:
        times = result["speedup_of_a_token"], result["speedup_of_a_prompt"]
        lines.append(f"{'times':10}{times[0]:>12.2f}{times[1]:>12.2f}")
        lines.append(f"relative error {result['relative_error']}")
    sums = result["all_reduce"]
    for numel, us in sums["us_of_a_sum"].items():
        alone = sums.get("us_of_nccl_alone", {}).get(numel)
        nccl = f", NCCL alone {alone:.2f}" if alone is not None else ""
        lines.append(
            f"all-reduce of {numel} elements in a call of {SUMS[int(numel)]}: {us:.2f} us{nccl}"
        )
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=SIZES, default="8b")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--target", default="h200", help="name of this machine's GPUs as a target")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", type=int, default=29513, help="for PyTorch's own NCCL")
    parser.add_argument("--no-single", action="store_true", help="not on one GPU: it does not fit")
    parser.add_argument(
        "--gpu-memory", type=float, default=0, metavar="GB", help="leave so much of each GPU"
    )
    parser.add_argument("--folder", type=Path, help="where programs are kept and taken from")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--task", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.gpu_memory and chosen.device == "cpu":
        parser.error("--gpu-memory is for --device cuda")
    if chosen.task:
        task, what, num_ranks, folder = chosen.task
        work = lower if task == "lower" else time_rank
        work(what, int(num_ranks), chosen, Path(folder))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        counts = [chosen.ranks] if chosen.no_single else [1, chosen.ranks]
        jobs = [(chosen.model, count) for count in counts] + [("sums", chosen.ranks)]
        missing = [job for job in jobs if not (folder / f"{job[0]}_{job[1]}.pte").exists()]
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda job: run("lower", *job, chosen, folder), missing))
        for what, count in jobs:
            run("time", what, count, chosen, folder)
        result = report(chosen.model, chosen.ranks, folder)
    environment.save(chosen.output, result)
    print(table(result))


if __name__ == "__main__":
    main()
