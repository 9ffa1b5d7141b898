"""Memory of intermediate tensors on the CPU, which is kept from call to call."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.export import export

from aoti_plugins import CpuPartitioner
from aoti_plugins.runtime import Program

PAGE = resource.getpagesize()
WIDTH = 2048  # a matrix of as many rows has 16 MiB


class Squares(nn.Module):
    """Products of products, each of which is a tensor of its own."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x @ x.T
        return ((wide @ wide).relu() @ x).sum(1)


@pytest.fixture(scope="module")
def lowered() -> bytes:
    exported = export(Squares(), (torch.randn(WIDTH, 16),))
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    return bytes(edge.to_executorch().buffer)


@pytest.fixture
def program(lowered: bytes) -> Iterator[Program]:
    with Program(lowered) as loaded:
        yield loaded


class Malloc(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [
        *((f"others_{i}", ctypes.c_size_t) for i in range(4)),
        ("hblkhd", ctypes.c_size_t),  # in mapped blocks
        *((f"others_{i}", ctypes.c_size_t) for i in range(4, 6)),
        ("uordblks", ctypes.c_size_t),  # in all others
        *((f"others_{i}", ctypes.c_size_t) for i in range(6, 8)),
    ]


def in_use() -> int:
    """Bytes that the C library has given out; those that it keeps for itself do not count."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Malloc
    found = ask()
    return int(found.uordblks + found.hblkhd)


def test_a_call_makes_no_page_anew(program: Program) -> None:
    x = torch.randn(WIDTH, 16) / WIDTH
    for _ in range(3):
        program(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        program(x)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < WIDTH * WIDTH * 4 / PAGE / 8  # one tensor would make eight times as many


_GOES_BACK = """
import sys
import torch
sys.path.insert(0, sys.argv[1])
from test_kept_memory import WIDTH, in_use
from aoti_plugins.runtime import Program
with Program(sys.argv[2]) as loaded:
    loaded(torch.randn(WIDTH, 16))
    kept = in_use()
print(kept - in_use())
"""


def test_all_goes_back_with_the_last_program(lowered: bytes, tmp_path: Path) -> None:
    """In a process of its own: in this one other tests' programs may be open."""
    path = tmp_path / "program.pte"
    path.write_bytes(lowered)
    command = [sys.executable, "-c", _GOES_BACK, str(Path(__file__).parent), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > WIDTH * WIDTH * 4
