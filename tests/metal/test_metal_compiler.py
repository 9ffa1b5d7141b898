"""The compiler program: its cache, its errors, several processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import compile as metal_compiler
import pytest
from metal_library import Library

KERNEL = "kernel void one(device int* out, uint i [[thread_position_in_grid]]) { out[i] = 1; }\n"
PROGRAM = Path(metal_compiler.__file__)


def start(source: Path, output: Path, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(source), str(output)],
        env={**os.environ, "AOTI_PLUGINS_METAL_CACHE": str(cache), "METAL_HOST_CHECK": "0"},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_share_a_cache(tmp_path: Path) -> None:
    source = tmp_path / "one.metal"
    source.write_text(KERNEL)
    cache = tmp_path / "cache"
    outputs = [tmp_path / f"{i}.so" for i in range(3)]
    processes = [start(source, output, cache) for output in outputs]
    assert [process.communicate()[1] for process in processes] == ["", "", ""]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(list(cache.iterdir())) == 1
    assert {output.read_bytes() for output in outputs} == {next(cache.iterdir()).read_bytes()}
    assert set(Library(outputs[0])) == {"one"}


def test_errors_name_the_line_and_show_it(tmp_path: Path) -> None:
    source = tmp_path / "bad.metal"
    source.write_text("\nkernel void f(device int* out) {\n  out[0] = missing;\n}\n")
    process = start(source, tmp_path / "bad.so", tmp_path / "cache")
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "program_source:3:12: error: use of undeclared identifier 'missing'" in errors
    assert "    out[0] = missing;" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "bad.so").exists()


def test_the_cache_knows_texts_and_checks_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {metal_compiler._digest(KERNEL), metal_compiler._digest(KERNEL + " ")}
    monkeypatch.setenv("METAL_HOST_CHECK", "0")
    digests.add(metal_compiler._digest(KERNEL))
    assert len(digests) == 3
