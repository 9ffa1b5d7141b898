"""Kernels of Apple GPUs in profiles, run over the stand-in for Metal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from profiling_support import Block, check_kernels
from support import lower

from aoti_plugins import MpsPartitioner
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
