"""Weights go from the model into the file without a copy, and as they were when lowered."""

from __future__ import annotations

import copy
import hashlib
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from executorch.exir import ExecutorchProgramManager, to_edge_transform_and_lower
from torch import Tensor, nn
from torch.export import ExportedProgram

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import LoweringError, ProgramError
from aoti_plugins.lowering import stored_bytes
from aoti_plugins.lowering.backend import DeviceBackend
from aoti_plugins.lowering.cores import usable_cores
from aoti_plugins.lowering.inductor import probe
from aoti_plugins.lowering.stored_bytes import TensorBytes, digests_meanwhile, sha256_of, stored
from aoti_plugins.runtime import Program

WIDTH = 256  # more bytes than are copied


class Counting(nn.Module):
    """A weight, and a state as large as it that every call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("total", torch.zeros(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(1)
        return self.linear(x) + self.total[0]


def lowered(model: nn.Module, x: Tensor) -> ExecutorchProgramManager:
    exported = torch.export.export(model, (x,))
    return to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()]).to_executorch()


def test_a_part_of_a_storage() -> None:
    tensor = torch.arange(100_000, dtype=torch.int32)
    expected = tensor[1000:].numpy().tobytes()
    data = stored(tensor, 4000, 400_000, may_change=False)
    assert isinstance(data, TensorBytes)
    assert (len(data), data.prefix(8), data.to_bytes()) == (396_000, expected[:8], expected)
    assert bytes(data) == expected  # as hook packages read named data
    assert data.sha256() == sha256_of(data) == sha256_of(expected)
    assert data.sha256() == hashlib.sha256(expected).digest()
    file = io.BytesIO()
    data.write_to_file(file)
    data.close()
    assert file.getvalue() == expected


def test_what_may_change_and_what_is_small_is_copied() -> None:
    tensor = torch.zeros(100_000)
    for data in (stored(tensor, 0, 400_000, may_change=True), stored(tensor, 0, 8, False)):
        tensor[0] = 1
        assert isinstance(data, bytes)
        assert data[:8] == bytes(8)
        tensor[0] = 0


def test_digests_are_computed_meanwhile() -> None:
    tensor = torch.arange(100_000, dtype=torch.int32)
    with digests_meanwhile() as threads:
        data = stored(tensor, 0, 400_000, False, threads)
    assert isinstance(data, TensorBytes)
    assert data.sha256() == hashlib.sha256(tensor.numpy()).digest()
    tensor[0] = 1
    with pytest.raises(LoweringError, match="has changed since"):
        data.to_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own there")
def test_digests_give_way_to_compilers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They, and nobody else; where it is forbidden they are computed all the same."""
    before = priority()
    with digests_meanwhile() as threads:
        assert threads.submit(priority).result() == min(before + 10, 19)
    assert priority() == before

    def forbidden(increment: int) -> int:
        raise PermissionError(f"no {increment}")

    monkeypatch.setattr(os, "nice", forbidden)
    caplog.set_level("DEBUG", stored_bytes.__name__)
    with digests_meanwhile() as threads:
        assert threads.submit(priority).result() == before
    assert "no 10" in caplog.text


def priority() -> int:
    """This thread's."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_no_digest_is_begun_after_an_error() -> None:
    begun: list[int] = []
    leave = threading.Event()

    def fail() -> None:
        with digests_meanwhile() as threads:
            for _ in range(2 * usable_cores()):  # as many again as run
                threads.submit(lambda: (begun.append(1), leave.wait(10)))
            while len(begun) < usable_cores():
                time.sleep(0.001)
            threading.Timer(0.1, leave.set).start()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(begun) == usable_cores()


def test_a_weight_that_changes_before_it_is_written_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, x = Counting(), torch.randn(2, WIDTH)
    program = lowered(model, x)
    before = model.linear.weight.detach().clone()
    with torch.no_grad():
        model.linear.weight.mul_(2)
    path = tmp_path / "model.pte"
    with pytest.raises(LoweringError, match=r"262144 bytes has changed since .* was lowered"):
        _ = program.buffer
    with (
        path.open("wb") as file,
        pytest.raises(LoweringError, match="before the model is trained"),
    ):
        program.write_to_file(file)
    program.save(str(path))  # ExecuTorch's, which only logs errors
    assert "has changed since the program was lowered" in caplog.text
    with pytest.raises(ProgramError):
        Program(path)
    with torch.no_grad():
        model.linear.weight.copy_(before)
    assert Program(program.buffer)(x)[0].shape == (2, WIDTH)


def test_a_state_is_as_it_was_exported() -> None:
    model, x = Counting(), torch.randn(2, WIDTH)
    program = lowered(model, x)
    expected = model(x)  # changes the model's own state before the program is written
    with Program(program.buffer) as loaded:
        torch.testing.assert_close(loaded(x)[0], expected)


def test_programs_are_those_of_lowering_with_copies_and_single_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x = Counting(), torch.randn(2, WIDTH)
    found = lowered(model, x).buffer
    monkeypatch.setattr(stored_bytes, "_LEAST_NBYTES", 2**40)
    monkeypatch.setattr(probe, "_FEWEST_TOGETHER", 2**40)
    monkeypatch.setattr(DeviceBackend, "copy_exported_program_for_preprocess", _whole_copy)
    assert lowered(model, x).buffer == found


def _whole_copy(program: ExportedProgram, compile_specs: object) -> ExportedProgram:
    """As ExecuTorch does it."""
    del compile_specs
    return copy.deepcopy(program)


def test_the_model_keeps_its_weights() -> None:
    model, x = Counting(), torch.randn(2, WIDTH)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    _ = lowered(model, x)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


SCRIPT = """
import sys, torch
from torch import nn
from executorch.exir import to_edge_transform_and_lower
from aoti_plugins import CpuPartitioner, CudaPartitioner

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

layers, width = 4, 4096
with torch.device("meta"):
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
model.load_state_dict(torch.load(sys.argv[1], mmap=True), assign=True)
x = torch.randn(1, width)
small = torch.export.export(nn.Linear(4, 4), (torch.randn(1, 4),))
partitioner = {"cpu": CpuPartitioner, "cuda": lambda: CudaPartitioner(target="h100")}[sys.argv[2]]
to_edge_transform_and_lower(small, partitioner=[partitioner()]).to_executorch()
exported = torch.export.export(model, (x,))
before = anonymous()
program = to_edge_transform_and_lower(exported, partitioner=[partitioner()]).to_executorch()
program.save(sys.argv[3])
print(anonymous() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_mapped_checkpoint_is_written_without_being_held(tmp_path: Path, device: str) -> None:
    """256 MiB of weights, of which no copy is in the process's own memory."""
    width = 4096
    weights = {
        f"{layer}.{name}": torch.zeros(size)
        for layer in range(4)
        for name, size in (("weight", (width, width)), ("bias", (width,)))
    }
    for index, value in enumerate(weights.values()):
        value.fill_(index)
    torch.save(weights, tmp_path / "weights.pt")
    output = tmp_path / "model.pte"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "weights.pt"), device, str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    nbytes = sum(value.nbytes for value in weights.values())
    assert output.stat().st_size > nbytes
    assert int(done.stdout.splitlines()[-1]) < nbytes / 2
