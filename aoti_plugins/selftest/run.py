"""Run a self-test on this machine, each case in a process of its own.

What crashes takes only its own case with it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy

from aoti_plugins.errors import AotiPluginsError, ProgramError
from aoti_plugins.runtime import Program, register
from aoti_plugins.selftest.bundle import Bundle, Call, Case, read_bundle

_LONGEST_S = 600
_TIMED_CALLS = 5
_LONGEST_ERROR = 2000


@dataclass(frozen=True)
class Result:
    """What came of one case.

    Attributes:
        name: the case's.
        error: what went wrong; empty if nothing did.
        worst: largest difference from what was recorded, as a share of what is allowed.
        load_s: seconds to load the program and its method.
        first_s: seconds of the first call.
        call_s: seconds of a later one, the median.
    """

    name: str
    error: str = ""
    worst: float = 0.0
    load_s: float = 0.0
    first_s: float = 0.0
    call_s: float = 0.0


def run_bundle(path: Path, names: Sequence[str] = ()) -> Iterator[Result]:
    """Run cases, one after the other.

    Args:
        path: of the self-test.
        names: of the cases to run, in the self-test's order; empty: all.

    Raises:
        ProgramError: the file is no self-test, or has no case of a name.
    """
    for case in _chosen(read_bundle(path), names):
        yield _in_a_process(path, case.name)


def run_case(path: Path, name: str) -> Result:
    """Run one case in this process; failures of the program are in the result.

    Raises:
        ProgramError: the file is no self-test, or has no case of that name.
    """
    bundle = read_bundle(path)
    (case,) = _chosen(bundle, [name])
    try:
        return _run(bundle, case)
    except AotiPluginsError as error:
        return Result(name, error=str(error)[-_LONGEST_ERROR:])


def _chosen(bundle: Bundle, names: Sequence[str]) -> list[Case]:
    known = [case.name for case in bundle.cases]
    if unknown := sorted(set(names).difference(known)):
        raise ProgramError(
            f"the self-test has no program called {', '.join(unknown)}; there are: "
            f"{', '.join(known)}"
        )
    return [case for case in bundle.cases if not names or case.name in names]


def _in_a_process(path: Path, name: str) -> Result:
    command = [sys.executable, "-m", "aoti_plugins.selftest.run", str(path), name]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result(name, error=f"it did not end within {_LONGEST_S} seconds")
    try:
        return Result(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        last = done.stderr.strip()[-_LONGEST_ERROR:]
        return Result(name, error=f"its process ended with status {done.returncode}:\n{last}")


def _run(bundle: Bundle, case: Case) -> Result:
    register(bundle.device)
    calls = bundle.calls(case)
    start = time.perf_counter()
    with Program(bundle.program(case)) as program:
        method = program.method()
        loaded = time.perf_counter()
        found = method(*calls[0].inputs)
        first = time.perf_counter()
        shares = [_share(case, calls[0], found)]
        shares += [_share(case, call, method(*call.inputs)) for call in calls[1:]]
        again = partial(method, *calls[-1].inputs)
        seconds = timeit.repeat(again, repeat=_TIMED_CALLS, number=1)
    worst = max(shares)
    error = "" if worst <= 1 else f"outputs differ by {worst:.3g} times what is allowed"
    median = statistics.median(seconds)
    return Result(case.name, error, worst, loaded - start, first - loaded, median)


def _share(case: Case, call: Call, found: tuple[numpy.ndarray, ...]) -> float:
    """The largest difference as a share of the tolerance; infinite where the form differs."""
    if len(found) != len(call.outputs):
        return float("inf")
    return max(
        (_one_share(case, a, b) for a, b in zip(call.outputs, found, strict=True)), default=0.0
    )


def _one_share(case: Case, expected: numpy.ndarray, found: numpy.ndarray) -> float:
    if (expected.shape, expected.dtype) != (found.shape, found.dtype):
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if numpy.array_equal(expected, found) else float("inf")
    allowed = case.atol + case.rtol * numpy.abs(expected)
    shares = numpy.abs(expected - found) / allowed
    return float(numpy.nan_to_num(shares, nan=float("inf")).max(initial=0.0))


if __name__ == "__main__":
    print(json.dumps(asdict(run_case(Path(sys.argv[1]), sys.argv[2]))))
