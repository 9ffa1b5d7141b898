"""Kernels of Apple GPUs in profiles, run over the stand-in for Metal."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from profiling_support import Attention, Block, check_kernels, numeric_gaps, with_record
from support import lower

from aoti_plugins import MpsPartitioner, native_files
from aoti_plugins.cli.app import app

X = torch.ones(3, 8)


@pytest.mark.usefixtures("metal", "restored_logging")
def test_a_program_for_an_apple_gpu_is_profiled(tmp_path: Path) -> None:
    path = tmp_path / "block.pte"
    path.write_bytes(lower(Block().eval(), (X,), partitioner=MpsPartitioner(target="host")).buffer)
    trace = tmp_path / "trace.json"
    options = ("--repeat", "3", "--trace", str(trace), "--json")
    done = CliRunner().invoke(app, ["profile", str(path), *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    check_kernels(found["kernels"])
    assert all(one["seconds"] > 0 and one["launches"] == 1 for one in found["kernels"])
    # On the GPU's clock, which is the host's: each kernel ran within the call of its delegate.
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one["ph"] == "X"]
    calls = {one["args"]["call"]: one for one in events if one["name"] == "DELEGATE_CALL"}
    kernels = [one for one in events if one["cat"] == "kernel"]
    assert len(kernels) == 3 * len(found["kernels"])
    for one in kernels:
        call = calls[one["args"]["call"]]
        assert call["ts"] <= one["ts"]
        assert one["ts"] + one["dur"] <= call["ts"] + call["dur"]


@pytest.mark.usefixtures("metal")
def test_outputs_of_kernels_are_those_of_ops(cpp_runner: Path, tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 160).reshape(2, 5, 16)
    program = with_record(Attention().eval(), x, MpsPartitioner(target="host"), tmp_path)
    dump, outputs = tmp_path / "dump", tmp_path / "outputs"
    x.numpy().tofile(tmp_path / "x.bin")
    command = [cpp_runner, "--etdump", dump, "--outputs", outputs, program, tmp_path / "x.bin"]
    # The program links the delegates of this system; the other one registers itself likewise.
    delegate = native_files.library("libexecutorch_backend_aoti_mps.so")
    environment = {**os.environ, "LD_PRELOAD": str(delegate)}
    subprocess.run(list(map(str, command)), check=True, env=environment)
    gaps = numeric_gaps(dump, outputs, program.with_suffix(".etrecord"))
    assert {"layer_norm", "linear", "softmax", "cumsum"} <= set(gaps)
    assert all(gap < 1e-3 for gap in gaps.values()), gaps
