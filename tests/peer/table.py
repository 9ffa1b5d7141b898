"""Write ``docs/operator-suite.md`` from the stored results of ExecuTorch's operator suite.

python tests/peer/table.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENT = ROOT / "docs" / "operator-suite.md"

_KINDS = ("SUCCESS", "SUCCESS_UNDELEGATED", "SKIPPED")
_FLOWS = {
    "aoti_cpu": "CPU, run",
    "aoti_cpu_aarch64_emulated_sample": "60 tests, lowered on x86-64 for aarch64, run under qemu",
    "aoti_cuda": "NVIDIA GPU, run",
    "aoti_cuda_sample": "60 tests of the same",
    "aoti_cuda_h100_lowered": "H100, lowered without a GPU, not run",
    "aoti_mps_lowered": "Apple GPU, lowered, not run",
    "aoti_mps_emulated": "Apple GPU, run over a stand-in for Metal on the CPU",
    "aoti_mps_emulated_sample": "60 tests of the same",
}
_INTRODUCTION = """\
# ExecuTorch's operator suite

ExecuTorch tests its backends with the operators in `executorch/backends/test/suite`.
`tests/peer/run.py` runs them on our flows: each test exports a small model, lowers it with our
partitioner, runs the program, and compares with eager PyTorch. `SUCCESS` is ExecuTorch's word for
delegated and right; whole means that no op of any of a test's programs stayed outside of our
delegate. The suite itself skips tests whose model eager PyTorch refuses, and those it does not
enforce.

This page is written by `python tests/peer/table.py` from `benchmarks/results/peer_*.json`.
"""


def document() -> str:
    """The page."""
    found = {flow: _load(flow) for flow in _FLOWS}
    runs = {flow: run for flow, run in found.items() if run is not None}
    others = sorted({kind for run in runs.values() for kind in run["counts"]} - set(_KINDS))
    kinds = (*_KINDS, *others)
    lines = [_INTRODUCTION, _row("flow", *kinds, "whole", "tests", "on")]
    lines.append(_row(*["---"] * (len(kinds) + 4)))
    for flow, run in runs.items():
        counts = [run["counts"].get(kind, 0) for kind in kinds]
        where = _where(run["environment"])
        name = f"`{flow}` ({_FLOWS[flow]})"
        lines.append(_row(name, *counts, run["delegated_whole"], run["tests"], where))
    for flow, run in runs.items():
        lines += ["", f"## What is not whole in `{flow}`", "", _row("result", "why", "tests")]
        lines.append(_row("---", "---", "---"))
        lines += [_row(*cells) for cells in _reasons(run["not_whole"])]
    return "\n".join([*lines, ""])


def _load(flow: str) -> dict[str, Any] | None:
    path = RESULTS / f"peer_{flow}.json"
    return dict(json.loads(path.read_text())) if path.exists() else None


def _where(environment: dict[str, Any]) -> str:
    hardware, versions = environment["hardware"], environment["versions"]
    machine = ", ".join(hardware.get("gpus", [])) or hardware["cpu"]
    return f"{machine}; torch {versions['torch']}, {environment['date']}"


def _reasons(not_whole: dict[str, str]) -> list[tuple[str, str, str]]:
    """Result, reason and tests, the most frequent reason first."""
    tests = defaultdict(list)
    for name, why in not_whole.items():
        kind, _, reason = why.partition(": ")
        tests[kind, reason].append(name.partition("::")[2].partition("[")[0])
    ordered = sorted(tests.items(), key=lambda one: (one[0][0], -len(one[1]), one[0][1]))
    return [
        (kind, reason.replace("|", "\\|"), ", ".join(f"`{name}`" for name in names))
        for (kind, reason), names in ordered
    ]


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
