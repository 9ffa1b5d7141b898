"""`aoti-plugins profile` on a GPU: each kernel with its time there, graphs or not."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from profiling_support import Attention, numeric_gaps, with_record

from aoti_plugins import CudaPartitioner
from aoti_plugins.cli.app import app

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("restored_logging")]


@pytest.mark.parametrize("way", ["estimated", "graphs"])
def test_kernels_have_their_times(
    gpu_programs: Callable[[str, str], Path], way: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    program = gpu_programs("transformer", way)
    options = ["--repeat", "10", "--trace", str(trace), "--json"]
    done = CliRunner().invoke(app, ["profile", str(program), *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    kernels = [one for one in found["kernels"] if one["delegate"] >= 0]
    assert len(kernels) > 5
    assert all(one["modules"] and one["lines"] for one in kernels)
    # A kernel takes a microsecond at least, and no more than the call does that has all of them.
    inside = sum(one["seconds"] for one in kernels)
    assert all(one["seconds"] > 1e-6 for one in kernels)
    assert inside < 10 * found["seconds"]
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one["ph"] == "X"]
    calls = {one["args"]["call"]: one for one in events if one["name"] == "DELEGATE_CALL"}
    ran = [one for one in events if one["cat"] == "kernel"]
    assert len(ran) == 10 * sum(one["launches"] for one in kernels)
    by_time = sorted(ran, key=lambda one: one["ts"])
    for one, after in itertools.pairwise(by_time):
        assert one["ts"] + one["dur"] <= after["ts"] + 1  # one behind the other
    for one in ran:
        call = calls[one["args"]["call"]]
        assert call["ts"] <= one["ts"]
        assert one["ts"] + one["dur"] <= call["ts"] + call["dur"] + 20  # clocks meet that well


def test_outputs_of_kernels_are_those_of_ops(cpp_runner: Path, tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 160).reshape(2, 5, 16)
    partitioner = CudaPartitioner(target="native", cuda_graphs=True)
    program = with_record(Attention().eval(), x, partitioner, tmp_path)
    dump, outputs = tmp_path / "dump", tmp_path / "outputs"
    x.numpy().tofile(tmp_path / "x.bin")
    command = [cpp_runner, "--etdump", dump, "--outputs", outputs, program, tmp_path / "x.bin"]
    subprocess.run(list(map(str, command)), check=True)
    gaps = numeric_gaps(dump, outputs, program.with_suffix(".etrecord"))
    assert {"layer_norm", "linear", "cumsum"} <= set(gaps)
    # Sums of absolute differences over up to 480 numbers of about 1; products may be of TF32.
    assert all(gap < 0.5 for gap in gaps.values()), gaps
