"""Time of a call of CUDA programs in a process without Python, with two versions of this package.

Each version lowers the models and builds ``benchmarks/cuda_process`` with what is installed in its
folder; then the programs are called in turns, each in processes of its own, and the median counts.

    git worktree add BEFORE COMMIT
    pip wheel --no-deps -w WHEELS BEFORE && pip install --no-deps --target OLD_SITE WHEELS/*.whl
    python benchmarks/cuda_versions.py --old OLD_SITE BEFORE --new NEW_SITE . --target h100

A site holds executorch, too, and all that a version needs to lower. Needs a GPU, CMake and the CUDA
toolkit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environment

RESULTS = Path(__file__).parent / "results" / "cuda_versions.json"
MODELS = {"mlp": "mlp", "decoder, 1 token": "transformer_1"}
CALLS, ROUNDS = 400, 7
_BUILD = "import pathlib, sys, cuda_process; cuda_process.build(pathlib.Path(sys.argv[1]))"


@dataclass(frozen=True)
class Version:
    """A version of this package.

    Attributes:
        site: the folder that it is installed in.
        sources: its checkout, for the models and the program that calls them.
        folder: where its programs go.
    """

    site: Path
    sources: Path
    folder: Path

    def _run(self, *command: str | Path) -> None:
        benchmarks = self.sources / "benchmarks"
        path = f"{self.site}{os.pathsep}{benchmarks}"
        variables = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=benchmarks,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{self.site}: {command} failed:\n{done.stdout[-1000:]}{done.stderr[-4000:]}")

    def lower(self, model: str, target: str) -> None:
        """Lower a model with the cost model alone."""
        task = ("--task", model, "estimated", target, "", self.folder / f"{model}.pte")
        self._run("cuda_programs.py", *task)

    def build(self) -> None:
        """Build the program that calls them."""
        self._run("-c", _BUILD, self.folder / "build")

    def call(self, model: str, *graphs: str) -> dict[str, float]:
        """Microseconds of a call, with a wait behind each and in a row."""
        process, program = self.folder / "build" / "cuda_process", self.folder / f"{model}.pte"
        libraries = [str(self.site / "executorch" / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        done = subprocess.run(
            [process, "calls", program, str(CALLS), *graphs],
            env={**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))},
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(versions: dict[str, Version]) -> dict[str, Any]:
    """Call all programs of all versions in turns."""
    found: dict[str, Any] = {}
    for title, model in MODELS.items():
        for graphs in ((), ("graphs",)):
            calls: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
            for _ in range(ROUNDS):
                for name, version in versions.items():
                    calls[name].append(version.call(model, *graphs))
            found[f"{title}{', graphs' if graphs else ''}"] = {
                key: {
                    name: round(statistics.median(one[key] for one in rounds), 2)
                    for name, rounds in calls.items()
                }
                for key in ("latency_us", "in_a_row_us")
            }
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("old", "new"):
        parser.add_argument(
            f"--{name}", nargs=2, type=Path, required=True, metavar=("SITE", "SOURCES")
        )
    parser.add_argument("--target", default="native", help="this machine's GPU as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        versions = {}
        for name in ("old", "new"):
            site, sources = (path.resolve() for path in getattr(chosen, name))
            versions[name] = Version(site, sources, Path(temporary) / name)
            versions[name].folder.mkdir()
        with ThreadPoolExecutor() as pool:
            works = [pool.submit(one.build) for one in versions.values()]
            for model in MODELS.values():
                works += [pool.submit(one.lower, model, chosen.target) for one in versions.values()]
            for work in works:
                work.result()
        found = measure(versions)
    environment.save(chosen.output, found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
