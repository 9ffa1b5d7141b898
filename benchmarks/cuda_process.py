"""CUDA programs in a process without Python: time of a call, loading, cold start, full memory.

Builds the program of benchmarks/cuda_process with CMake, lowers the models, and prints and saves
what that program measured. Loading is of a gigabyte of weights, beside one copy of as many bytes
from page-locked memory.

    python benchmarks/cuda_process.py --target h100

Needs a GPU, CMake and the CUDA toolkit. Files that are in ``--folder`` already are not built again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cuda_programs
import environment

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "cuda_process.json"
WAY = "estimated"
CALLED = ("mlp", "transformer_1", "transformer_128", "cnn")
SMALL, LARGE = "mlp", "gigabyte"
CALLS, CYCLES = 200, 500


def build(folder: Path) -> Path:
    """Compile the C++ program against the installed package.

    Raises:
        subprocess.CalledProcessError: CMake or the compiler failed; they have said why.
    """
    tell = [sys.executable, "-m", "aoti_plugins.runtime", "--cmake-dir", "--executorch-cmake-dir"]
    found = subprocess.run(tell, check=True, capture_output=True, text=True).stdout.split()
    options = [
        f"-D{name}_DIR={path}"
        for name, path in zip(("aoti_plugins", "executorch"), found, strict=True)
    ]
    configure = ["cmake", "-S", str(HERE / "cuda_process"), "-B", str(folder), *options]
    subprocess.run([*configure, "-DCMAKE_BUILD_TYPE=Release"], check=True)
    subprocess.run(["cmake", "--build", str(folder)], check=True)
    return folder / "cuda_process"


def measure(process: Path, *arguments: str | Path) -> dict[str, Any]:
    """What one run printed, or its ``failure``, so that the others' results are not lost."""
    command = [str(process), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    found = dict(json.loads(lines[-1])) if lines else {}
    if done.returncode:
        found["failure"] = f"exit status {done.returncode}: {done.stderr[-2000:]}"
    return found


def median_load(process: Path, program: Path) -> dict[str, Any]:
    """Of five processes that load a program, the one in the middle."""
    loads = [measure(process, "load", program) for _ in range(5)]
    loads.sort(key=lambda one: float(one.get("first_result_ms", float("inf"))))
    return loads[len(loads) // 2]


def measure_all(process: Path, builds: cuda_programs.Builds) -> dict[str, Any]:
    """All figures; those of loading are the median of five processes."""
    paths = {name: builds.path(name, WAY) for name in (*CALLED, LARGE)}
    calls = {
        name: {
            "without graphs": measure(process, "calls", paths[name], str(CALLS)),
            "with graphs": measure(process, "calls", paths[name], str(CALLS), "graphs"),
        }
        for name in CALLED
    }
    nbytes = paths[LARGE].stat().st_size
    return {
        "calls": calls,
        "load": {
            "program_nbytes": nbytes,
            **measure(process, "copy", str(nbytes)),
            **median_load(process, paths[LARGE]),
        },
        "cold start": median_load(process, builds.path(SMALL, cuda_programs.DEFAULT)),
        "cycles": measure(process, "cycles", paths[SMALL], str(CYCLES)),
        "cycles of a gigabyte": measure(process, "cycles", paths[LARGE], "20"),
        "full": measure(process, "full", paths[LARGE], paths[SMALL]),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="h100", help="name of this machine's GPU as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--seconds", type=float, default=3600, help="time for building programs")
    parser.add_argument("--folder", type=Path, help="where programs go; a temporary one")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        builds = cuda_programs.Builds(folder, chosen.target, time.monotonic() + chosen.seconds)
        with ThreadPoolExecutor() as pool:
            process = pool.submit(build, Path(temporary) / "build")
            programs = [(name, WAY) for name in (*CALLED, LARGE)]
            programs.append((SMALL, cuda_programs.DEFAULT))
            list(pool.map(lambda one: builds.build(*one), programs))
            found = measure_all(process.result(), builds)
    environment.save(chosen.output, found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
