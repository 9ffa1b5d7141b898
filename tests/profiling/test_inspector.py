"""ExecuTorch's Inspector joins the events of our kernels with the ops of the model.

And what they wrote with what these ops give in PyTorch.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from profiling_support import Attention, numeric_gaps, with_record
from support import needs_executorchs_extension

from aoti_plugins import CpuPartitioner

# In a process of its own: ExecuTorch's runtime and its devtools warn as they are imported.
TABLE = """
import sys, torch
from aoti_plugins.runtime import register
register()
from executorch.runtime import Runtime, Verification
program, record, folder = sys.argv[1:]
loaded = Runtime.get().load_program(
    program, verification=Verification.Minimal, enable_etdump=True
)
method = loaded.load_method("forward")
for _ in range(3):
    method.execute([torch.ones(3, 8)])
loaded.write_etdump_result_to_file(folder + "/dump", folder + "/debug")
from executorch.devtools import Inspector
for block in Inspector(etdump_path=folder + "/dump", etrecord=record).event_blocks:
    for event in block.events:
        if event.is_delegated_op:
            stacks = [list(stack.values()) for stack in event.module_hierarchy.values()]
            modules = [stack[-1][0] for stack in stacks]
            print(event.name, event.delegate_backend_name, event.op_types, modules,
                  len(event.perf_data.raw), sep="|")
"""


@needs_executorchs_extension
def test_inspector_names_the_source_ops(watched: Path, tmp_path: Path) -> None:
    record = watched.with_suffix(".etrecord")
    ran = subprocess.run(
        [sys.executable, "-c", TABLE, str(watched), str(record), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    rows = [line.split("|") for line in ran.stdout.splitlines() if line.count("|") == 4]
    assert {row[1] for row in rows} == {"AotiCpuBackend"}
    assert {row[4] for row in rows} == {"3"}
    products = [row for row in rows if "addmm" in row[0] or "mm" in row[0].split(":")[0]]
    assert {
        module for row in products for module in ("blocks.0.project", "last") if module in row[3]
    } == {
        "blocks.0.project",
        "last",
    }
    convolutions = [row for row in rows if "convolution" in row[0]]
    assert len(convolutions) == 2
    assert all("aten.conv1d.default" in row[2] for row in convolutions)


X = torch.linspace(-1, 1, 160).reshape(2, 5, 16)


class Rounded(Attention):
    """In bfloat16 inside, which ExecuTorch's dumps do not have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.bfloat16()).float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_of_kernels_are_those_of_ops(
    cpp_runner: Path, dtype: torch.dtype, tmp_path: Path
) -> None:
    """Also where a kernel does a part of an op, more than one, or writes a view of the result."""
    model = Attention() if dtype == torch.float32 else Rounded()
    program = with_record(model.eval().to(dtype), X, CpuPartitioner(), tmp_path)
    dump, outputs = tmp_path / "dump", tmp_path / "outputs"
    X.numpy().tofile(tmp_path / "x.bin")
    command = [cpp_runner, "--etdump", dump, "--outputs", outputs, program, tmp_path / "x.bin"]
    subprocess.run(list(map(str, command)), check=True)
    gaps = numeric_gaps(dump, outputs, program.with_suffix(".etrecord"))
    assert {"layer_norm", "linear", "linear_1", "conv1d", "add", "softmax", "cumsum"} <= set(gaps)
    # Sums of absolute differences over up to 480 numbers of about 1.
    limit = 1e-3 if dtype == torch.float32 else 5.0
    assert all(gap < limit for gap in gaps.values()), gaps


def test_times_and_outputs_are_two_runs(cpp_runner: Path, watched: Path, tmp_path: Path) -> None:
    """Inspector takes one event for each op; and times would be those of copies."""
    dump, outputs = tmp_path / "dump", tmp_path / "outputs"
    names = {}
    for what, options in (("times", []), ("outputs", ["--outputs", outputs])):
        command = [cpp_runner, "--etdump", dump, *options, watched]
        subprocess.run(list(map(str, command)), check=True)
        ran = subprocess.run(
            [sys.executable, "-c", NAMES, str(dump)], capture_output=True, text=True, check=True
        )
        names[what] = {line for line in ran.stdout.splitlines() if ":" in line}
    assert any(name.startswith("aoti_torch_cpu_convolution:") for name in names["times"])
    assert not any(".buf" in name for name in names["times"])
    assert all(".buf" in name for name in names["outputs"])


NAMES = """
import sys
from executorch.devtools import Inspector
for block in Inspector(etdump_path=sys.argv[1]).event_blocks:
    for event in block.events:
        if event.is_delegated_op and "DELEGATE_CALL" not in event.name:
            print(event.name)
"""
