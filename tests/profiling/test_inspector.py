"""ExecuTorch's Inspector joins the events of our kernels with the ops of the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import needs_executorchs_extension

# In a process of its own: ExecuTorch's runtime and its devtools warn as they are imported.
TABLE = """
import sys, torch
from aoti_plugins.runtime import register
register()
from executorch.runtime import Runtime, Verification
program, record, folder = sys.argv[1:]
loaded = Runtime.get().load_program(
    program, verification=Verification.Minimal, enable_etdump=True, debug_buffer_size=1 << 20
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
