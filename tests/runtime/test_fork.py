"""fork while other threads load and run programs: the child loads and runs them, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Lowered = Callable[[str], Path]

# numpy alone: other libraries have threads and locks of their own.
SCRIPT = """
import os, signal, sys, threading, time
import numpy
from aoti_plugins.runtime import Program

path, forks = sys.argv[1], int(sys.argv[2])
x = numpy.ones((4, 64), numpy.float32)
program = Program(path)
(expected,) = program(x)
stop = threading.Event()

def run():
    while not stop.is_set():
        program(x)

def load():
    while not stop.is_set():
        with Program(path) as one:
            one(x)

threads = [threading.Thread(target=work, daemon=True) for work in (run, load, load)]
for thread in threads:
    thread.start()

def in_child():
    signal.alarm(60)  # a child that hangs is killed
    same = numpy.array_equal(program(x)[0], expected)  # the parent's, which a thread may have run
    with Program(path) as one:
        same = same and numpy.array_equal(one(x)[0], expected)
    os._exit(0 if same else 3)

results = []
for _ in range(forks):
    child = os.fork()
    if child == 0:
        try:
            in_child()
        finally:
            os._exit(4)
    results.append(os.waitpid(child, 0)[1])
    time.sleep(0.002)
stop.set()
for thread in threads:
    thread.join()
print(sum(result != 0 for result in results), "of", forks, "children failed:", set(results))
sys.exit(any(results))
"""


def test_the_child_of_a_fork_loads_and_runs_programs(
    lowered_programs: Lowered, run_python: Callable[..., str]
) -> None:
    """Before forks waited, 27 of 40 such children never came back."""
    program = lowered_programs("mlp")
    run_python(SCRIPT, program, 60, PYTHONWARNINGS="ignore", AOTI_PLUGINS_NUM_THREADS="4")
