"""Time of the attention kernels on this machine's GPU, against PyTorch's own.

Each side is captured in a CUDA graph, so that the time is the GPU's; keys and values change from
call to call until they no longer fit the cache, as those of a model's layers do. The two sides take
turns, and the median round counts. Needs torch and triton; executorch need not be installed.

    python benchmarks/cuda_attention.py
    python benchmarks/cuda_attention.py --sweep     # also try other configurations than the chosen
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import environment
import torch
from torch._library.triton import set_wrap_triton_enabled
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).parent.parent))

from aoti_plugins.cuda.attention import launch
from aoti_plugins.cuda.attention.config import (
    DecodeConfig,
    PrefillConfig,
    choose,
    shared_nbytes,
)
from aoti_plugins.cuda.attention.target import AttentionTarget, attention_target

RESULTS = Path(__file__).parent / "results" / "cuda_attention.json"
# More than the second-level cache of any GPU, and the calls of one graph at most.
COLD_NBYTES = 256 << 20
MOST_CALLS = 32
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5}


@dataclasses.dataclass(frozen=True)
class Shape:
    """One attention; ``mask`` is "", "lower" (causal, as booleans) or "cache" (a part is used)."""

    name: str
    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    dtype: torch.dtype = torch.bfloat16
    causal: bool = False
    mask: str = ""


SHAPES = (
    Shape("prompt of 128", 1, 16, 16, 128, 128, 64, causal=True),
    Shape("prompt of 2048, d 64", 4, 16, 16, 2048, 2048, 64, causal=True),
    Shape("prompt of 2048, d 128", 2, 32, 8, 2048, 2048, 128, causal=True),
    Shape("prompt of 16384, d 128", 1, 16, 16, 16384, 16384, 128, causal=True),
    Shape("prompt of 2048, d 256", 2, 8, 8, 2048, 2048, 256, causal=True),
    Shape("encoder, d 64, f16", 8, 16, 16, 1024, 1024, 64, torch.float16),
    Shape("encoder of 1500, 12 heads, d 64", 1, 12, 12, 1500, 1500, 64),
    Shape("encoder, d 80", 4, 16, 16, 1024, 1024, 80),
    Shape("image, d 128", 2, 24, 24, 4096, 4096, 128),
    Shape("masked prompt, d 128", 2, 32, 8, 2048, 2048, 128, mask="lower"),
    Shape("prompt in a cache, 32/8 heads", 1, 32, 8, 2048, 4096, 128, mask="lower"),
    Shape("float32, d 64", 2, 16, 16, 1024, 1024, 64, torch.float32, causal=True),
    Shape("one token, 16 heads, 2048", 1, 16, 16, 1, 2048, 64),
    Shape("one token, 32/8 heads, 4096", 1, 32, 8, 1, 4096, 128),
    Shape("one token, 32/8 heads, 65536", 1, 32, 8, 1, 65536, 128),
    Shape("one token, batch 16, 4096", 16, 32, 8, 1, 4096, 128),
    Shape("one token, batch 16, 32 heads", 16, 32, 32, 1, 4096, 128),
    Shape("one token, cache 1/4 full", 1, 32, 8, 1, 16384, 128, mask="cache"),
    Shape("8 tokens, 32/8 heads, 8192", 1, 32, 8, 8, 8192, 128),
)


def calls_of(shape: Shape, smoke: bool) -> list[launch.Call]:
    """As many calls with tensors of their own as it takes to leave the cache."""

    def tensor(heads: int, length: int) -> torch.Tensor:
        sizes = (shape.batch, length, heads, shape.head_dim)
        return torch.randn(sizes, device="cuda", dtype=shape.dtype).transpose(1, 2)

    kv_nbytes = 2 * shape.batch * shape.kv_heads * shape.kv_len * shape.head_dim
    count = COLD_NBYTES // (kv_nbytes * shape.dtype.itemsize) + 1
    mask = None
    if shape.mask == "lower":
        mask = torch.ones(shape.q_len, shape.kv_len, device="cuda", dtype=torch.bool).tril()
    if shape.mask == "cache":
        keys = torch.arange(shape.kv_len, device="cuda")
        mask = (keys < shape.kv_len // 4).expand(shape.batch, 1, shape.q_len, -1).contiguous()
    return [
        launch.Call(
            tensor(shape.heads, shape.q_len),
            tensor(shape.kv_heads, shape.kv_len),
            tensor(shape.kv_heads, shape.kv_len),
            mask,
            shape.causal,
            shape.head_dim**-0.5,
        )
        for _ in range(1 if smoke else min(count, MOST_CALLS))
    ]


def ours(calls: list[launch.Call], config: Any = None) -> list[torch.Tensor]:
    results = []
    for call in calls:
        results.append(launch.output_like(call, [0, 2, 1, 3]))
        launch.run(call, results[-1], config)
    return results


def theirs(calls: list[launch.Call]) -> list[torch.Tensor]:
    return [
        torch.nn.functional.scaled_dot_product_attention(
            call.query,
            call.key,
            call.value,
            call.mask,
            is_causal=call.causal,
            enable_gqa=call.group > 1,
        )
        for call in calls
    ]


def largest_difference(call: launch.Call) -> float:
    """From the math form in float32, head by head: a large one does not fit the memory."""
    result = ours([call])[0]
    largest = 0.0
    for batch, head in itertools.product(range(result.shape[0]), range(result.shape[1])):
        kv_head = head // call.group
        mask = call.mask
        if mask is not None and mask.dim() == 4:
            mask = mask[batch : batch + 1]
        one = dataclasses.replace(
            call,
            query=call.query[batch, head][None, None].float(),
            key=call.key[batch, kv_head][None, None].float(),
            value=call.value[batch, kv_head][None, None].float(),
            mask=mask,
        )
        with sdpa_kernel(SDPBackend.MATH):
            wanted = theirs([one])[0][0, 0]
        largest = max(largest, (result[batch, head].float() - wanted).abs().max().item())
    return largest


@contextlib.contextmanager
def captured(work: Callable[[], Any]) -> Iterator[torch.cuda.CUDAGraph]:
    """A CUDA graph of some work, which is done once before, outside the graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work()
    yield graph
    del kept


def replay_us(graph: torch.cuda.CUDAGraph, calls: int, replays: int) -> float:
    """Microseconds of one call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / calls / replays


def replays_for(graph: torch.cuda.CUDAGraph, target_us: float) -> int:
    once = replay_us(graph, 1, 2)
    return max(1, min(200, round(target_us / max(once, 1.0))))


def time_sides(
    sides: dict[str, Callable[[], Any]], calls: int, rounds: int, round_us: float
) -> dict[str, float]:
    """Median microseconds of one call on each side."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    with contextlib.ExitStack() as stack:
        graphs = {name: stack.enter_context(captured(work)) for name, work in sides.items()}
        replays = {name: replays_for(graph, round_us) for name, graph in graphs.items()}
        for _ in range(rounds):
            for name, graph in graphs.items():
                times[name].append(replay_us(graph, calls, replays[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def rival_sides(calls: list[launch.Call]) -> dict[str, Callable[[], Any]]:
    """PyTorch's backends that take this attention."""
    found = {}
    for backend in (
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.MATH,
    ):

        def work(backend: SDPBackend = backend) -> list[torch.Tensor]:
            with sdpa_kernel(backend):
                return theirs(calls)

        if backend == SDPBackend.MATH and found:
            continue
        try:
            work()
        except RuntimeError:  # "no available kernel"
            continue
        found[backend.name.lower().removesuffix("_attention")] = work
    return found


def other_configs(call: launch.Call, target: AttentionTarget) -> Iterator[Any]:
    """What a sweep tries: neighbours of the choice that fit the GPU."""
    problem = call.problem()
    chosen = choose(problem, target)
    if isinstance(chosen, PrefillConfig):
        tried = (
            PrefillConfig(*numbers)
            for numbers in itertools.product((64, 128), (32, 64, 128), (4, 8), (2, 3, 4))
        )
    else:
        splits = sorted({1, *(max(1, round(chosen.splits * f)) for f in (0.5, 0.75, 1, 1.5, 2, 4))})
        ways = [(chosen.block_m, (2, 3, 4))] if chosen.block_m > 1 else [(1, (1, 2)), (16, (2, 3))]
        tried = (
            DecodeConfig(block_m, *numbers)
            for block_m, stages in ways
            for numbers in itertools.product((16, 32, 64, 128), splits, (2, 4, 8), stages)
        )
    for config in tried:
        if config != chosen and shared_nbytes(config, problem, target) <= target.shared_memory:
            yield config


def sweep(
    calls: list[launch.Call], target: AttentionTarget, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The fastest configurations, the chosen one among them."""
    found = []
    for config in (choose(calls[0].problem(), target), *other_configs(calls[0], target)):
        try:
            sides = {"ours": lambda config=config: ours(calls, config)}
            times = time_sides(sides, len(calls), max(options.rounds // 3, 1), options.round_us)
        except Exception as error:  # out of registers or shared memory: not a candidate
            print(f"    {config}: {type(error).__name__}", file=sys.stderr)
            continue
        found.append({"config": describe(config), "us": times["ours"]})
    return sorted(found, key=lambda one: one["us"])[:6]


def describe(config: Any) -> dict[str, Any]:
    return {"kernel": type(config).__name__.removesuffix("Config").lower()} | vars(config)


def measure(shape: Shape, target: AttentionTarget, options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    calls = calls_of(shape, options.smoke)
    with attention_target(target):
        difference = largest_difference(calls[0])
        if not difference < TOLERANCE[shape.dtype]:
            raise SystemExit(f"{shape.name}: wrong by {difference}")
        sides = {"ours": lambda: ours(calls), **rival_sides(calls)}
        times = time_sides(sides, len(calls), options.rounds, options.round_us)
    chosen = choose(calls[0].problem(), target)
    result: dict[str, Any] = {
        "shape": {**vars(shape), "dtype": str(shape.dtype).removeprefix("torch.")},
        "config": describe(chosen),
        "us": times,
        "speed_against_best": min(us for name, us in times.items() if name != "ours")
        / times["ours"],
        "largest_difference": difference,
    }
    if options.sweep:
        result["sweep"] = sweep(calls, target, options)
    return result


def target_here() -> AttentionTarget:
    properties = torch.cuda.get_device_properties(0)
    return AttentionTarget(
        (properties.major, properties.minor),
        properties.multi_processor_count,
        properties.shared_memory_per_block_optin,
    )


def report(result: dict[str, Any]) -> None:
    us = result["us"]
    rivals = "".join(f"{name:>11}{us[name]:9.1f}" for name in us if name != "ours")
    name = result["shape"]["name"]
    print(
        f"{name:30}{us['ours']:9.1f} us {result['speed_against_best']:5.2f}x {rivals}", flush=True
    )
    for one in result.get("sweep", []):
        numbers = " ".join(f"{key}={value}" for key, value in one["config"].items())
        print(f"    {one['us']:9.1f} us  {numbers}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--round-us", type=float, default=20000.0, help="length of a round")
    parser.add_argument("--only", nargs="*", default=[""], help="shapes whose name contains one")
    parser.add_argument("--sweep", action="store_true", help="try other configurations, too")
    parser.add_argument("--smoke", action="store_true", help="one call in a graph")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs an NVIDIA GPU and a CUDA build of torch")
    target = target_here()
    print(f"{torch.cuda.get_device_name()}; ours, speed against PyTorch's best, PyTorch's times")
    results = []
    with torch.no_grad(), set_wrap_triton_enabled(False):  # launch kernels, trace nothing
        for shape in SHAPES:
            if any(part in shape.name for part in options.only):
                results.append(measure(shape, target, options))
                report(results[-1])
    ratios = [result["speed_against_best"] for result in results]
    described = environment.describe()
    described["hardware"]["gpu"] = torch.cuda.get_device_name()
    described["versions"]["cuda"] = torch.version.cuda
    summary = {
        "environment": described,
        "what": "scaled dot-product attention, microseconds of a call on the GPU",
        "settings": {key: value for key, value in vars(options).items() if key != "output"},
        "geometric_mean_speed_against_best": statistics.geometric_mean(ratios),
        "results": results,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(summary, indent=2) + "\n")
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}x; written to {options.output}")


if __name__ == "__main__":
    main()
