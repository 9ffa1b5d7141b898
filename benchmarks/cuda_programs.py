"""Time of a call of programs for this machine's GPU, against an AOTInductor package of libtorch.

Each model is lowered by us three times: on the GPU; in a process that sees no GPU, with the tuning
records that the first lowering wrote; and there with the cost model alone. The second program also
runs with CUDA graphs. ``--without-measuring`` leaves out the first two, which take minutes for
large models; the third then runs with graphs. Each is also compiled by plain AOTInductor with
max-autotune, two at a time by default. All are then timed in this process, in turns, with inputs
and outputs on the GPU: ``latency`` is a call with a synchronization after it, ``throughput`` a call
in a row of many. The median round counts. Every call gives new tensors, with graphs it gives the
same ones again. torch.compile, which cannot run beside loaded packages, is timed in a process of
its own.

    python benchmarks/cuda_programs.py --target h100 --output results/cuda_programs.json

Files that are in ``--folder`` already are not built again: a run that was cut off can go on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# With some builds of PyTorch, a package crashes in std::regex when it is loaded unless libtorch's
# symbols come first. Triton, which a lowering needs, does not stand that.
_flags = sys.getdlopenflags()
if "--task" not in sys.argv:
    sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_NOW)

import environment  # noqa: E402
import gpu_models  # noqa: E402
import torch  # noqa: E402

sys.setdlopenflags(_flags)

RESULTS = Path(__file__).parent / "results" / "cuda_programs.json"
WAYS = ("measured", "records", "estimated")
DEFAULT = "default"
"""As ``estimated``, without ``max_autotune``."""
GRAPHS = "graphs"
AOTI = "aotinductor"
EAGER = "eager"
COMPILED = "torch.compile"
SHOWN = (EAGER, COMPILED, AOTI, *WAYS, GRAPHS)
ROUNDS = 15
CALLS = 100
ROUND_US = 50_000
"""Calls are fewer where a round of them would take longer."""


def lower(name: str, way: str, target: str, records: str, output: str) -> None:
    """Lower one model; run in a process of its own."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CudaPartitioner

    model, inputs = gpu_models.ALL[name]()
    options: dict[str, Any] = {
        "measured": {"target": "native", "save_tuning": records},
        "records": {"target": target, "tuning": records},
        "estimated": {"target": target},
        DEFAULT: {"target": target},
    }[way]
    partitioner = CudaPartitioner(max_autotune=way != DEFAULT, **options)
    exported = torch.export.export(model, inputs)
    start = time.perf_counter()
    program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    Path(output).write_bytes(program.buffer)
    print(f"lowered {name} {way} in {time.perf_counter() - start:.1f} s", flush=True)


def package(name: str, output: str) -> None:
    """Compile one model with plain AOTInductor; run in a process of its own."""
    model, inputs = gpu_models.ALL[name]()
    inputs = tuple(tensor.cuda() for tensor in inputs)
    with torch.no_grad():
        exported = torch.export.export(model.cuda(), inputs)
        start = time.perf_counter()
        torch._inductor.aoti_compile_and_package(
            exported, package_path=output, inductor_configs={"max_autotune": True}
        )
    print(f"compiled {name} with AOTInductor in {time.perf_counter() - start:.1f} s", flush=True)


class Builds:
    """Files of all models in one folder; our measurements have the GPU for themselves."""

    def __init__(self, folder: Path, target: str, deadline: float) -> None:
        self._folder = folder
        self._target = target
        self._deadline = deadline

    def path(self, name: str, way: str) -> Path:
        """Where a model's file for a way is, if it could be built."""
        kind = {AOTI: "pt2", COMPILED: "json"}.get(way, "pte")
        return self._folder / f"{name}_{way}.{kind}"

    def build_all(
        self, names: Sequence[str], packages_at_a_time: int, compiled: bool, measured: bool
    ) -> None:
        """Build everything there is time for; with ``compiled``, time torch.compile, too."""
        with (
            ThreadPoolExecutor(4) as without_gpu,
            ThreadPoolExecutor(packages_at_a_time) as packages,
        ):
            waiting = []
            for name in names:
                if measured:
                    self.build(name, "measured")
                ways = WAYS[1:] if measured else ("estimated",)
                waiting += [without_gpu.submit(self.build, name, way) for way in ways]
            waiting += [packages.submit(self.build, name, AOTI) for name in names]
            for one in waiting:
                one.result()
        if compiled:
            for name in names:
                self.build(name, COMPILED)

    def build(self, name: str, way: str) -> None:
        """Build one file unless it is there; says on stderr why it could not."""
        if self.path(name, way).exists():
            return
        records = str(self._folder / f"{name}.json")
        task = [name, way, self._target, records, str(self.path(name, way))]
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if way in ("records", "estimated", DEFAULT) else {}
        left = self._deadline - time.monotonic()
        if left < 1:
            print(f"no time is left for {name} {way}", file=sys.stderr)
            return
        command = [sys.executable, __file__, "--task", *task]
        # torch.compile finds what AOTInductor measured.
        cache = self._folder / f"cache_{name}_{AOTI if way == COMPILED else way}"
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
        try:
            subprocess.run(
                command, env={**os.environ, **hidden, **caches}, timeout=left, check=True
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"{name} {way}: {error}", file=sys.stderr, flush=True)


def calls_of(builds: Builds, name: str, inputs: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    """A function that runs the model for each way whose file is there."""
    from aoti_plugins.runtime import Program

    model = gpu_models.ALL[name]()[0].cuda()
    calls: dict[str, Callable[[], Any]] = {EAGER: lambda: model(*inputs)}
    if builds.path(name, AOTI).exists():
        runner = torch._inductor.aoti_load_package(str(builds.path(name, AOTI)))
        calls[AOTI] = lambda: runner(*inputs)
    for way in WAYS:
        if builds.path(name, way).exists():
            method = Program(builds.path(name, way)).method()
            calls[way] = lambda method=method: method(*inputs)[0]
    paths = [builds.path(name, way) for way in ("records", "estimated")]
    with_graphs = next((path for path in paths if path.exists()), None)
    if with_graphs is not None:
        options = {"AotiCudaBackend": {"cuda_graphs": True}}
        captured = Program(with_graphs).method(options=options)
        calls[GRAPHS] = lambda: captured(*inputs, copy=False)[0]
    return calls


def measure(name: str, builds: Builds) -> dict[str, Any]:
    """Times of all ways in microseconds, and how far results are from eager's."""
    inputs = _inputs_on_gpu(name)
    found = _timed(name, inputs, calls_of(builds, name, inputs))
    compiled = builds.path(name, COMPILED)
    return {**found, **json.loads(compiled.read_text())} if compiled.exists() else found


def time_compiled(name: str, output: str) -> None:
    """Time torch.compile with max-autotune, which uses CUDA graphs; in a process of its own."""
    model = gpu_models.ALL[name]()[0].cuda()
    inputs = _inputs_on_gpu(name)
    compiled = torch.compile(model, mode="max-autotune")
    found = _timed(name, inputs, {COMPILED: lambda: compiled(*inputs)})
    Path(output).write_text(json.dumps(found))


def _inputs_on_gpu(name: str) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.cuda() for tensor in gpu_models.ALL[name]()[1])


def _timed(
    name: str, inputs: tuple[torch.Tensor, ...], calls: dict[str, Callable[[], Any]]
) -> dict[str, Any]:
    with torch.no_grad():
        expected = gpu_models.ALL[name]()[0].cuda()(*inputs).double()
        for call in calls.values():
            for _ in range(10):
                call()
        counts = {way: max(5, min(CALLS, int(ROUND_US / _row(calls[way], 5)))) for way in calls}
        errors = {
            way: ((call().double() - expected).norm() / expected.norm()).item()
            for way, call in calls.items()
        }
        latency: dict[str, list[float]] = {way: [] for way in calls}
        throughput: dict[str, list[float]] = {way: [] for way in calls}
        for _ in range(ROUNDS):
            for way, call in calls.items():
                latency[way].append(statistics.median(_times(call, counts[way])))
                throughput[way].append(_row(call, counts[way]))
    return {
        way: {
            "latency_us": round(statistics.median(latency[way]), 2),
            "throughput_us": round(statistics.median(throughput[way]), 2),
            "relative_error": float(f"{errors[way]:.2e}"),
        }
        for way in calls
    }


def _times(call: Callable[[], Any], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return times


def _row(call: Callable[[], Any], count: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e6 / count


def speeds(results: dict[str, Any]) -> dict[str, float]:
    """Geometric mean over the models of AOTInductor's latency divided by ours, by way."""
    found = {}
    for way in (*WAYS, GRAPHS):
        ratios = [
            times[AOTI]["latency_us"] / times[way]["latency_us"]
            for times in results.values()
            if AOTI in times and way in times
        ]
        if ratios:
            found[way] = round(math.exp(statistics.fmean(map(math.log, ratios))), 3)
    return found


def table(results: dict[str, Any]) -> str:
    """What to read."""
    lines = [f"{'':18}" + "".join(f"{way:>20}" for way in SHOWN)]
    for name, times in results.items():
        cells = [
            "{latency_us:.1f} {throughput_us:.1f} {relative_error:.0e}".format(**times[way])
            if way in times
            else "-"
            for way in SHOWN
        ]
        lines.append(f"{name:18}" + "".join(f"{cell:>20}" for cell in cells))
    lines.append("latency and throughput in microseconds per call, error relative to eager")
    lines.append(f"speed against {AOTI} (geometric mean of latencies): {speeds(results)}")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models",
        nargs="*",
        help=f"of {', '.join(gpu_models.ALL)}; without any, {', '.join(gpu_models.MODELS)}",
    )
    parser.add_argument("--target", default="h100", help="name of this machine's GPU as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--seconds", type=float, default=3600, help="time for building programs")
    parser.add_argument(
        "--packages", type=int, default=2, help="AOTInductor packages compiled at a time"
    )
    parser.add_argument(
        "--compiled", action="store_true", help="time torch.compile with max-autotune, too"
    )
    parser.add_argument(
        "--without-measuring",
        dest="measured",
        action="store_false",
        help="lower with the cost model alone",
    )
    parser.add_argument("--folder", type=Path, help="where programs go; a temporary one")
    parser.add_argument("--task", nargs=5, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.task:
        name, way, target, records, output = chosen.task
        if way == AOTI:
            package(name, output)
        elif way == COMPILED:
            time_compiled(name, output)
        else:
            lower(name, way, target, records, output)
        return
    names = chosen.models or list(gpu_models.MODELS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        builds = Builds(folder, chosen.target, time.monotonic() + chosen.seconds)
        builds.build_all(names, chosen.packages, chosen.compiled, chosen.measured)
        results = {}
        for name in names:
            results[name] = measure(name, builds)
            found = {"packages at a time": chosen.packages, "models": results}
            environment.save(chosen.output, {**found, "speed": speeds(results)})
    print(table(results))


if __name__ == "__main__":
    main()
