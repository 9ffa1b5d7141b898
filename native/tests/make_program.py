"""Write a program for runner_test: two methods whose delegate is a stand-in for a compiled model.

Run as ``python make_program.py BLOB OUTPUT SOURCE_ROOT MACHINE``. Beside the output it writes the
same program with its weights in a data file: ``external.pte`` and ``external.ptd``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

BLOB = Path(sys.argv[1])
OUTPUT = Path(sys.argv[2])
sys.path.insert(0, sys.argv[3])

from stand_in import StandInPartitioner, use_blob  # noqa: E402


class Model(torch.nn.Module):
    """Any model with one [2, 3] input and output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return x + x


def make(*, external: bool):
    """The program, of two methods."""
    example = (torch.zeros(2, 3),)
    programs = {name: torch.export.export(Model(), example) for name in ("forward", "again")}
    edge = to_edge_transform_and_lower(
        programs,
        partitioner={name: [StandInPartitioner(external=external)] for name in programs},
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    return edge.to_executorch()


use_blob(BLOB, sys.argv[4])
OUTPUT.write_bytes(make(external=False).buffer)
with_data = make(external=True)
OUTPUT.with_name("external.pte").write_bytes(with_data.buffer)
with_data.write_tensor_data_to_file(str(OUTPUT.parent))
