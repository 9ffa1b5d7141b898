"""Loading, running and destroying programs gives everything back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

SCRIPT = """
import ctypes, gc, json, os, sys, numpy
from aoti_plugins.runtime import Program

inputs = numpy.load(sys.argv[2])

def cycle():
    with Program(sys.argv[1]) as program:
        method = program.method()
        method(inputs)
        method.close()

def usage():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free and only kept
    with open("/proc/self/maps") as f:
        maps = sum(1 for _ in f)
    # Not the pages of libraries and of the program, which the system has read or not.
    own = ("RssAnon:", "RssShmem:")
    with open("/proc/self/status") as f:
        resident = sum(int(line.split()[1]) for line in f if line.startswith(own))
    return {"files": len(os.listdir("/proc/self/fd")), "maps": maps, "resident_kb": resident}

for _ in range(20):
    cycle()
before = usage()
for _ in range(200):
    cycle()
print(json.dumps([before, usage()]))
"""


def test_200_cycles_leave_nothing(
    tmp_path: Path, run_python: Callable[..., str], lowered_programs: Callable[[str], Path]
) -> None:
    import numpy as np

    np.save(tmp_path / "inputs.npy", np.ones((1, 3, 32, 32), np.float32))
    # Python's own allocator maps a megabyte whenever its small objects want one more.
    printed = run_python(
        SCRIPT, lowered_programs("cnn"), tmp_path / "inputs.npy", PYTHONMALLOC="malloc"
    )
    before, after = json.loads(next(line for line in printed.splitlines() if line.startswith("[{")))
    assert after["files"] == before["files"]
    assert after["maps"] == before["maps"]
    assert after["resident_kb"] - before["resident_kb"] < 1024
