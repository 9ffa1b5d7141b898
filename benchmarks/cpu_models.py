"""Time of one call on the CPU: our programs against XNNPACK's flow, and against torch.compile.

Every model is exported once and lowered twice, with ``CpuPartitioner()`` and with ExecuTorch's
``XnnpackPartitioner()`` (quantised ones by the flow that XNNPACK has for them), and both programs
run in this process with equal inputs and as many threads as there are processors. Calls are timed
in rounds that alternate; the fastest round counts, as other processes only ever make one slower.

    python benchmarks/cpu_models.py [MODEL ...] [--compile]

``--compile`` times ``torch.compile(model)`` as well. It needs ``transformers`` and ``timm``.
"""

from __future__ import annotations

import argparse
import copy
import math
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environment
import torch
from cpu_zoo import MODELS, Case
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

from aoti_plugins import CpuPartitioner
from aoti_plugins.runtime import Program

RESULTS = Path(__file__).parent / "results" / "cpu_models.json"

Call = Callable[[], Any]


def ours(case: Case) -> tuple[Call, Any]:
    """A call of our program, and what it returned."""
    exported = torch.export.export(case.module, case.inputs)
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    program = Program(bytes(lowered.to_executorch().buffer))
    flat = case.flat_inputs()
    return lambda: program(*flat), first(program(*flat))


def xnnpack(case: Case) -> tuple[Call, Any]:
    """The same of XNNPACK's."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    exported = torch.export.export(case.module, case.inputs)
    lowered = to_edge_transform_and_lower(
        exported, partitioner=[XnnpackPartitioner(**case.xnnpack_options)]
    )
    buffer = lowered.to_executorch().buffer  # the module reads from it and does not keep it
    module = _load_for_executorch_from_buffer(buffer)
    flat = case.flat_inputs()

    def call() -> Any:
        return buffer and module.forward(flat)

    return call, first(call())


def compiled(case: Case) -> tuple[Call, Any]:
    """The same of torch.compile."""
    model = torch.compile(copy.deepcopy(case.module))

    def call() -> Any:
        with torch.no_grad():
            return model(*case.inputs)

    return call, first(call())


def first(result: Any) -> torch.Tensor:
    """The first tensor of a result."""
    leaf = torch.utils._pytree.tree_leaves(result)[0]
    return torch.as_tensor(leaf).float()


def fastest(calls: dict[str, Call], seconds: float, rounds: int) -> dict[str, float]:
    """Microseconds of one call, of each way, in the fastest of the rounds."""
    best = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            count, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < seconds / rounds or count == 0:
                call()
                count += 1
            best[name] = min(best[name], spent / count * 1e6)
            time.sleep(0.02)  # idle threads of one way leave the processors to the other
    return best


def page_faults(call: Call) -> float:
    """Pages that the system makes for one call, once all is warm."""
    count, before = 10, resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / count


def measure(case: Case, ways: dict[str, Callable[[Case], tuple[Call, Any]]], args: Any) -> Any:
    """Times of a model, their ratios, and how far results are from eager's."""
    with torch.no_grad():
        expected = first(case.module(*case.inputs))
    calls, errors = {}, {}
    for name, way in ways.items():
        calls[name], result = way(case)
        errors[name] = float((result - expected).abs().max() / expected.abs().max())
    times = fastest(calls, args.seconds, args.rounds)
    ratios = {name: times[name] / times["ours"] for name in times if name != "ours"}
    return {
        "us": times,
        "their_time_over_ours": ratios,
        "relative_error": errors,
        "page_faults": {name: page_faults(call) for name, call in calls.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all")
    parser.add_argument("--compile", action="store_true", help="time torch.compile, too")
    parser.add_argument("--seconds", type=float, default=4, help="for each model and way")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    ways = {
        "ours": ours,
        "xnnpack": xnnpack,
        **({"torch.compile": compiled} if args.compile else {}),
    }
    results: dict[str, Any] = {}
    for name in args.models or MODELS:
        results[name] = measured = measure(MODELS[name](), ways, args)
        row = "  ".join(f"{way} {us:9.1f} us" for way, us in measured["us"].items())
        ratios = "  ".join(f"{r:.2f}" for r in measured["their_time_over_ours"].values())
        errors = "  ".join(f"{e:.1e}" for e in measured["relative_error"].values())
        faults = "  ".join(f"{n:.0f}" for n in measured["page_faults"].values())
        row = f"{row}  ratio {ratios}  error {errors}  page faults {faults}"
        print(f"{name:24} {row}", flush=True)
    means = {
        way: math.prod(r["their_time_over_ours"][way] for r in results.values())
        ** (1 / len(results))
        for way in ways
        if way != "ours"
    }
    print("geometric mean of their time over ours:", means)
    environment.save(
        args.output,
        {"threads": torch.get_num_threads(), "geometric_means": means, "models": results},
    )


if __name__ == "__main__":
    main()
