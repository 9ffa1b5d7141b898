"""A tenth of ExecuTorch's operator suite on the CPU flow; all of it: ``tests/peer/run.py``."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import pytest

PARTS = 2  # as many as CI has processes
EVERY = 10 * PARTS


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_sample(part: int) -> None:
    peer = runpy.run_path(str(Path(__file__).with_name("run.py")))
    tests = peer["run"]("aoti_cpu", processes=0, every=EVERY, first=10 * part)
    counts = Counter(map(peer["outcome"], tests.values()))
    found = peer["results"](tests)
    assert set(counts) <= {"SUCCESS", "SKIPPED"}, peer["summary"](found)
    assert counts["SUCCESS"] >= 0.8 * len(tests) > 0, peer["summary"](found)
    assert len(tests) > 400 / EVERY
