"""The benchmarks run; the figures of such a short run mean nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_cpu_overhead(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "cpu_overhead.py")]
    command += ["--calls=3", "--rounds=2", "--processes=1", f"--output={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert result["per_call"]["ours"]["median_us"] > 0
    assert set(result["environment"]) == {"date", "hardware", "system", "versions"}


def test_stored_results_say_where_they_come_from() -> None:
    found = list((ROOT / "benchmarks" / "results").glob("*.json"))
    assert found
    for path in found:
        described = json.loads(path.read_text())["environment"]
        assert described["date"]
        assert described["hardware"]["cpu"]
        assert described["versions"]["torch"]


def test_stored_overhead_keeps_its_promise() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "cpu_overhead.json").read_text())
    assert result["per_call_ratio"] <= 0.5
