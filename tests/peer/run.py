"""Run ExecuTorch's operator test suite on one of our flows, and say what came out.

    python tests/peer/run.py aoti_cpu -n 2 --output results.json

A test counts as passed if every program in it was delegated, ran, and equals eager; ``whole`` says
that nothing of any of its programs stayed outside.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EMULATED_GPU = "aoti_mps_emulated"
EMULATED_ARM = "aoti_cpu_aarch64_emulated"
FLOWS = (
    "aoti_cpu",
    EMULATED_ARM,
    "aoti_cuda",
    "aoti_cuda_h100_lowered",
    "aoti_mps_lowered",
    EMULATED_GPU,
)
PASSED = "SUCCESS"
UNBROKEN = (PASSED, "SUCCESS_UNDELEGATED", "SKIPPED")
ROOT = Path(__file__).parent.parent.parent
SAMPLE = Path(__file__).with_name("sample.txt")


def outcome(test: dict[str, Any]) -> str:
    """One word on a test: its worst result, in the suite's terms."""
    results = {run["result"] for run in test["runs"]}
    for bad in sorted(results.difference(UNBROKEN)):
        return str(bad)
    if test["outcome"] == "failed":
        return "CRASHED"
    if not results or test["outcome"] == "skipped" or "SKIPPED" in results:
        return "SKIPPED"
    return "SUCCESS_UNDELEGATED" if "SUCCESS_UNDELEGATED" in results else PASSED


def is_whole(test: dict[str, Any]) -> bool:
    """Whether nothing of it stayed outside of delegates."""
    return outcome(test) == PASSED and not any(run["outside"] for run in test["runs"])


def results(tests: dict[str, Any]) -> dict[str, Any]:
    """Counts, and the cause for every test that did not pass or is not whole."""
    return {
        "tests": len(tests),
        "delegated_whole": sum(map(is_whole, tests.values())),
        "counts": dict(sorted(Counter(map(outcome, tests.values())).items())),
        "not_whole": {
            name: f"{outcome(test)}: {_why(test)}"
            for name, test in sorted(tests.items())
            if not is_whole(test)
        },
    }


def summary(found: dict[str, Any]) -> str:
    """Counts, and one line on every test that is not whole."""
    lines = [f"{count:5} {name}" for name, count in found["counts"].items()]
    lines.append(f"{found['delegated_whole']:5} delegated whole")
    lines.append(f"{found['tests']:5} tests")
    lines += [f"{name}: {why}" for name, why in found["not_whole"].items()]
    return "\n".join(lines)


def _why(test: dict[str, Any]) -> str:
    for run in test["runs"]:
        if run["result"] != PASSED or run["outside"]:
            text = run["error"] or ", ".join(run["outside"])
            return text.strip().partition("\n")[0][:160]
    return " ".join(test["reason"].split())[-160:]


def run(
    flow: str,
    processes: int,
    every: int = 1,
    first: int = 0,
    keyword: str = "",
    names: Path | None = None,
) -> dict[str, Any]:
    """Run the suite.

    Args:
        flow: one of ``FLOWS``.
        processes: how many tests run at the same time; 0 for one, without a process of its own.
        every: run only each n-th test,
        first: from this one on.
        keyword: only tests that match, as in pytest.
        names: a file that names the tests to run.

    Returns:
        A report on each test that was run, by its name.
    """
    suite = find_spec("executorch.backends.test.suite")
    assert suite is not None
    assert suite.submodule_search_locations
    operators = Path(suite.submodule_search_locations[0]) / "operators"
    here = str(Path(__file__).parent)
    tests = str(Path(here).parent)
    path = os.pathsep.join(filter(None, (here, tests, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            *(sys.executable, "-m", "pytest", str(operators), "-q", "--tb=no", "-p", "peer_flows"),
            *("-m", f"flow_{flow}", "-n", str(processes), "-k", keyword),
            *("--rootdir", folder, "-c", os.devnull, "-p", "no:cacheprovider", "-W", "ignore"),
            *(f"--peer-report={report}", f"--peer-every={every}", f"--peer-first={first}"),
            f"--peer-names={names or ''}",
        ]
        environment = {**os.environ, "PYTHONPATH": path, "AOTI_RUNTIME_CHECK_INPUTS": "1"}
        sys.path.insert(0, tests)
        environment |= _emulation(flow, Path(folder))
        subprocess.run(command, env=environment, check=False, stdout=sys.stderr)
        return dict(json.loads(report.read_text()))


def _emulation(flow: str, folder: Path) -> dict[str, str]:
    """The environment variables by which a flow finds what it runs on, made in a folder."""
    if flow == EMULATED_GPU:
        from mps_support import stand_in

        return stand_in(folder)
    if flow == EMULATED_ARM:
        from aarch64_support import MACHINE_VARIABLE, built_machine
        from wheels_support import find_build_programs, parts

        find_build_programs()
        machine = built_machine(folder / "aarch64", parts(folder), tests=False)
        return {MACHINE_VARIABLE: machine.as_text()}
    return {}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("flow", choices=FLOWS)
    parser.add_argument("-n", "--processes", type=int, default=2)
    parser.add_argument("-k", "--keyword", default="", help="only tests that match, as in pytest")
    parser.add_argument("--every", type=int, default=1, help="run only each n-th test")
    parser.add_argument("--sample", action="store_true", help="run the 60 tests of sample.txt")
    parser.add_argument("--output", type=Path, default=Path("peer.json"), help="JSON of results")
    chosen = parser.parse_args()
    names = SAMPLE if chosen.sample else None
    tests = run(chosen.flow, chosen.processes, chosen.every, keyword=chosen.keyword, names=names)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import environment

    found = results(tests)
    environment.save(chosen.output, {"flow": chosen.flow, **found})
    print(summary(found))
    return int(any(outcome(test) not in UNBROKEN for test in tests.values()))


if __name__ == "__main__":
    sys.exit(main())
