"""Lower real architectures with random weights, run the programs, and say what came out.

    python tests/zoo/run.py cuda -n 8 --output results.json
    python tests/zoo/run.py cuda transformers. --plan    # what would be delegated; compiles nothing
    python tests/zoo/run.py cuda transformers. --keep programs     # where there is no GPU, then
    python tests/zoo/run.py cuda transformers. --kept programs     # on the GPU host, lowers nothing

timm, torchvision and transformers must be installed. Each model has a process of its own. A model
counts as right if it is delegated whole, runs, and equals eager PyTorch on the CPU in float32 to a
relative error of 1e-3 in the Euclidean norm, integers exactly. PyTorch lets cuDNN round what
convolutions read to TF32 unless told otherwise, and programs keep what it says where they are
lowered; here it may not, for the comparison is with float32. On a machine without a GPU, programs
for CUDA are lowered for an H100 and not run.

``--output`` is written after every model, so that a run that is ended leaves what it has, and the
same command goes on from there. What the installed packages lack is MISSING, which is no failure.
"""

from __future__ import annotations

import argparse
import copy
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from aoti_plugins.hooks import hookimpl

sys.path.insert(0, str(Path(__file__).parent))
import catalogue

DEVICES = ("cpu", "cuda", "mps")
RIGHT, LOWERED, PLANNED, MISSING = "RIGHT", "LOWERED", "PLANNED", "MISSING"
PARTLY, DIFFERENT = "PARTLY", "DIFFERENT"
LIMIT = 1e-3
_BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
_PACKAGES = ("timm", "torchvision", "transformers")
_LONGEST_CAUSE, _LONGEST_LINE = 300, 100


def examine(name: str, device: str, plan: bool, keep: Path | None) -> dict[str, Any]:
    """What becomes of one model; a step that fails says which it was.

    Args:
        name: of the catalogue.
        device: ``"cpu"``, ``"cuda"`` or ``"mps"``.
        plan: only partition, compile nothing.
        keep: a folder that gets the program.
    """
    step, start = "MODEL", time.perf_counter()
    found: dict[str, Any] = {}
    try:
        with torch.no_grad():
            case = catalogue.make(name)
            step = "EAGER"
            expected = _eager(case)
            step = "EXPORT"
            exported = torch.export.export(case.model, case.calls[0], strict=case.strict)
        step = "LOWERING"
        program, outside = _lower(exported, device, plan)
        found = {"outside": outside, "lowered_s": round(time.perf_counter() - start, 1)}
        if plan:
            return {**found, "result": PARTLY if outside else PLANNED}
        if keep is not None:
            _Kept(case.calls, expected, found).write(keep, name, program)
        step = "RUN"
        if device == "mps" or (device == "cuda" and not torch.cuda.is_available()):
            return {**found, "result": PARTLY if outside else LOWERED}
        return {**found, **_judged(program, case.calls, expected, outside)}
    except catalogue.MissingInPackageError as error:
        return {"result": MISSING, "cause": str(error)}
    except Exception as error:
        return {**found, "result": f"{step}_FAILED", "cause": _cause(error)}


def examine_kept(name: str, kept: Path) -> dict[str, Any]:
    """What becomes of a model that was lowered with ``--keep``, maybe elsewhere."""
    found: dict[str, Any] = {}
    try:
        of = _Kept.read(kept, name)
        found = of.found
        program = (kept / f"{name}.pte").read_bytes()
        return {**found, **_judged(program, of.calls, of.expected, found["outside"])}
    except Exception as error:
        return {**found, "result": "RUN_FAILED", "cause": _cause(error)}


@dataclass(frozen=True)
class _Kept:
    """What lies beside a program: its inputs, what eager PyTorch gave, what the lowering said."""

    calls: Sequence[catalogue.Tensors]
    expected: list[torch.Tensor]
    found: dict[str, Any]

    def write(self, folder: Path, name: str, program: bytes) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.pte").write_bytes(program)
        torch.save(vars(self), folder / f"{name}.pt")

    @classmethod
    def read(cls, folder: Path, name: str) -> _Kept:
        return cls(**torch.load(folder / f"{name}.pt"))


def _judged(
    program: bytes,
    calls: Sequence[catalogue.Tensors],
    expected: list[torch.Tensor],
    outside: list[str],
) -> dict[str, Any]:
    error = _difference(_run(program, calls), expected)
    right = PARTLY if outside else RIGHT
    return {
        "relative_error": float(f"{error:.1e}"),
        "result": right if error <= LIMIT else DIFFERENT,
    }


def _eager(case: catalogue.Case) -> list[torch.Tensor]:
    model = copy.deepcopy(case.model)
    outputs = [
        leaf for call in case.calls for leaf in torch.utils._pytree.tree_leaves(model(*call))
    ]
    assert any(torch.isfinite(output).any() for output in outputs), "nothing is finite"
    return outputs


def _lower(
    exported: torch.export.ExportedProgram, device: str, plan: bool
) -> tuple[bytes, list[str]]:
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from aoti_plugins.plugin_system.manager import get_manager

    config = EdgeCompileConfig(_check_ir_validity=False)
    partitioner = _partitioner(device)
    if not plan:
        edge = to_edge_transform_and_lower(
            exported, partitioner=[partitioner], compile_config=config
        )
        return bytes(edge.to_executorch().buffer), _outside(edge)
    with get_manager().registered(NothingCompiled(), "nothing-compiled"):
        edge = to_edge_transform_and_lower(
            exported, partitioner=[partitioner], compile_config=config
        )
    return b"", _outside(edge)


class NothingCompiled:
    """A plugin in whose delegates there is nothing."""

    @hookimpl
    def aoti_preprocess(self) -> Any:
        """An empty payload."""
        from executorch.exir.backend.backend_details import PreprocessResult

        return PreprocessResult(processed_bytes=b"")


def _partitioner(device: str) -> Any:
    """One that goes on where nobody has a kernel: a model that is lowered in part is a result."""
    from aoti_plugins import CpuPartitioner, CudaPartitioner, MpsPartitioner

    if device == "cuda":
        target = "native" if torch.cuda.is_available() else "h100"
        return CudaPartitioner(target=target, allow_missing_kernels=True)
    partitioner = CpuPartitioner if device == "cpu" else MpsPartitioner
    return partitioner(allow_missing_kernels=True)


def _outside(edge: Any) -> list[str]:
    """Ops that are not delegated, with how many there are of each."""
    ops: Counter[str] = Counter()
    for module in edge.exported_program().graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule) or "lowered_module" in str(type(module)):
            continue
        targets = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
        ops.update(t for t in targets if "executorch_call_delegate" not in t and "getitem" not in t)
    return [f"{op} x{count}" for op, count in sorted(ops.items())]


def _run(program: bytes, calls: Sequence[catalogue.Tensors]) -> list[torch.Tensor]:
    from aoti_plugins.runtime import Program

    with Program(program) as loaded:
        return [output.clone() for call in calls for output in loaded(*call)]


def _difference(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest relative error of any output; infinite where shapes or integers differ."""
    if [t.shape for t in found] != [t.shape for t in expected]:
        return float("inf")
    return max(
        (_error(a.cpu(), b) for a, b in zip(found, expected, strict=True) if b.numel()), default=0.0
    )


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    if not expected.is_floating_point():
        return 0.0 if torch.equal(found, expected) else float("inf")
    finite = torch.isfinite(expected)
    if not torch.equal(finite, torch.isfinite(found)):
        return float("inf")
    if not torch.equal(found[~finite].nan_to_num(), expected[~finite].nan_to_num()):
        return float("inf")
    exact = expected[finite].double()
    return ((found[finite].double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()


def _cause(error: BaseException) -> str:
    """What the first error of a chain says, and of an export that failed, by which line."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = f"{type(root).__name__}: {' '.join(str(root).split())}"
    _, found, line = text.partition("Caused by:")
    if found:
        return f"{text[:_LONGEST_CAUSE]} ... {found}{line[:_LONGEST_LINE]}"
    if len(text) > 2 * _LONGEST_CAUSE:  # a tool's command first, what it said last
        return f"{text[:_LONGEST_CAUSE]} ... {text[-_LONGEST_CAUSE:]}"
    return text


def in_own_process(name: str, arguments: list[str], seconds: float) -> dict[str, Any]:
    """What a process of its own finds out about a model."""
    command = [sys.executable, "-W", "ignore", __file__, *arguments, "--task", name]
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"result": "TIMED_OUT", "cause": f"not done after {seconds:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"result": "CRASHED", "cause": " ".join(done.stderr.split())[-_LONGEST_CAUSE:]}
    return dict(json.loads(lines[-1]))


def summary(results: dict[str, Any]) -> str:
    """Counts by package, and one line on every model that is not right."""
    lines = []
    for package in sorted({name.partition(".")[0] for name in results}):
        counts = Counter(
            one["result"] for name, one in results.items() if name.startswith(f"{package}.")
        )
        text = ", ".join(f"{count} {result}" for result, count in counts.most_common())
        lines.append(f"{package}: {text}")
    for name, one in sorted(results.items()):
        if one["result"] not in (RIGHT, LOWERED, PLANNED):
            why = one.get("cause") or ", ".join(one.get("outside", ()))
            lines.append(f"{name}: {one['result']} {one.get('relative_error', '')} {why}"[:250])
    return "\n".join(lines)


def chosen_names(patterns: Iterable[str]) -> list[str]:
    """The models whose names are or hold one of the patterns; all without any.

    A pattern that is a whole name, with or without its package, does not mean longer names.
    """
    given = set(patterns)
    named = {n for n in catalogue.ENTRIES if given & _names(n)}
    parts = given.difference(*map(_names, named))
    return [n for n in catalogue.ENTRIES if not given or n in named or any(p in n for p in parts)]


def _names(name: str) -> set[str]:
    return {name, name.partition(".")[2]}


def _packages() -> dict[str, str]:
    """The versions of those packages of models that are installed."""
    installed = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    return {name: installed[name] for name in _PACKAGES if name in installed}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("device", choices=DEVICES)
    parser.add_argument("patterns", nargs="*", help="parts of names, such as timm.; all")
    parser.add_argument("-n", "--processes", type=int, default=2)
    parser.add_argument("--plan", action="store_true", help="partition, and compile nothing")
    parser.add_argument("--seconds", type=float, default=600, help="for one model")
    parser.add_argument("--keep", type=Path, help="a folder for the programs")
    parser.add_argument("--kept", type=Path, help="run the programs of this folder, lower nothing")
    parser.add_argument(
        "--output", type=Path, help="JSON of results; those in it are not run again"
    )
    parser.add_argument("--task", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.task:
        warnings.simplefilter("ignore")
        torch.backends.cudnn.allow_tf32 = False
        if chosen.kept:
            found = examine_kept(chosen.task, chosen.kept)
        else:
            found = examine(chosen.task, chosen.device, chosen.plan, chosen.keep)
        print(json.dumps(found))
        return 0
    sys.path.insert(0, str(_BENCHMARKS))
    import environment

    results: dict[str, Any] = {}
    if chosen.output and chosen.output.exists():
        results = json.loads(chosen.output.read_text())["models"]
    options = [chosen.device, *(["--plan"] if chosen.plan else [])]
    options += ["--keep", str(chosen.keep)] if chosen.keep else []
    options += ["--kept", str(chosen.kept)] if chosen.kept else []

    storing = threading.Lock()

    def one(name: str) -> None:
        start = time.perf_counter()
        found = in_own_process(name, options, chosen.seconds)
        found["took_s"] = round(time.perf_counter() - start, 1)
        with storing:
            results[name] = found
            print(f"{name}: {found['result']}", file=sys.stderr, flush=True)
            if chosen.output:
                models = dict(sorted(results.items()))
                stored = {"device": chosen.device, "packages": _packages(), "models": models}
                environment.save(chosen.output, stored)

    names = [name for name in chosen_names(chosen.patterns) if name not in results]
    if chosen.kept:
        names = [name for name in names if (chosen.kept / f"{name}.pte").exists()]
        if not names and not results:
            parser.error(f"{str(chosen.kept)!r} has no program of these names")
    with ThreadPoolExecutor(chosen.processes) as pool:
        list(pool.map(one, names))
    print(summary(results))
    fine = (RIGHT, LOWERED, PLANNED, MISSING)
    return int(any(one["result"] not in fine for one in results.values()))


if __name__ == "__main__":
    sys.exit(main())
