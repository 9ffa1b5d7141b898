"""Ctrl-C while a program is lowered: it ends soon, and leaves neither processes nor files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch
from support import cache_without_blobs
from torch import nn

PROMPTLY = 5.0
"""Seconds between the signal and the end of the process."""

LOWER = """
import sys
from pathlib import Path
import torch
from executorch.exir import to_edge_transform_and_lower
from aoti_plugins import CudaPartitioner
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system.manager import get_manager

class Stages:
    @hookimpl
    def aoti_progress(self, event):
        print(event.stage, event.status, file=sys.stderr, flush=True)

get_manager().register(Stages(), "stages")
exported = torch.export.load(sys.argv[1])
edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(target="h100")])
Path(sys.argv[2]).write_bytes(edge.to_executorch().buffer)
"""

DIGEST = """
import time
from triton.runtime import cache
cache.triton_key = lambda: time.sleep(600)
from aoti_plugins.cuda.inductor.triton_version import known_triton_version
with known_triton_version():
    print("sleeps", flush=True)
    time.sleep(600)
"""


class Lowering:
    """Lowerings in processes of their own, with folders that show what they leave.

    Args:
        folder: an empty one.
        variables: added to the environment.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.temporary = folder / "tmp"
        self.output = folder / "out" / "model.pte"
        for name in (self.cache, self.temporary, self.output.parent):
            name.mkdir(exist_ok=True)
        model = folder / "model.pt2"
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
        torch.export.save(torch.export.export(module, (torch.randn(2, 8),)), model)
        self.from_python = (sys.executable, "-c", LOWER, str(model), str(self.output))
        options = ("--device", "cuda", "--option", "target=h100", "-o", str(self.output))
        command_line = (sys.executable, "-m", "aoti_plugins", "lower", str(model))
        self.from_command_line = (*command_line, *options)
        self._log = folder / "log"
        self._environment = {
            **os.environ,
            "AOTI_PLUGINS_CACHE_DIR": str(self.cache),
            "TMPDIR": str(self.temporary),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "PYTHONFAULTHANDLER": "1",
            **variables,
        }

    def start(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:
            return subprocess.Popen(
                command, env=self._environment, stderr=log, stdout=log, start_new_session=True
            )

    def interrupt(
        self, command: tuple[str, ...], tool: str, whole_group: bool, stage: str = ""
    ) -> tuple[int, str]:
        """Start, interrupt as soon as ``tool`` runs, in a stage if one is given.

        Returns:
            Exit status and what was printed.
        """
        process = self.start(command)

        def runs() -> bool:
            in_stage = not stage or f"{stage} start" in self._log.read_text()
            return in_stage and tool in self.processes().values()

        wait_for(lambda: runs() or process.poll() is not None)
        assert process.poll() is None, self._log.read_text()
        time.sleep(0.2)
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
        try:
            process.wait(PROMPTLY)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # it says where all of its threads are
            process.wait(PROMPTLY)
            pytest.fail(f"still ran after {PROMPTLY} s:\n{self._log.read_text()}")
        finally:
            process.kill()
        return process.returncode, self._log.read_text()

    def processes(self) -> dict[int, str]:
        """Names of the processes that know our temporary folder, by id."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder).encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "comm").read_text().strip()
            except OSError:
                continue  # it is gone, or another user's
        return found

    def left_files(self) -> list[str]:
        """Files that a lowering would have removed or finished.

        In a folder of the cache that is a link other tests may be building at this moment.
        """
        own = [folder for folder in self.cache.iterdir() if not folder.is_symlink()]
        unfinished = [path for folder in own for path in folder.glob("building-*")]
        left = [*unfinished, *self.output.parent.iterdir(), *self.temporary.iterdir()]
        return sorted(map(str, left))


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def lowering(tmp_path: Path) -> Iterator[Callable[..., Lowering]]:
    """``lowering(NAME=value)`` with more variables; what it left running is ended."""
    made: list[Lowering] = []

    def make(**variables: str) -> Lowering:
        made.append(Lowering(tmp_path, variables))
        return made[-1]

    # Processes inherit that a signal is ignored, as it is in what a shell started with "&".
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield make
    signal.signal(signal.SIGINT, before)
    for one in made:
        for pid in one.processes():
            os.kill(pid, signal.SIGKILL)


def test_while_cpp_is_compiled(lowering: Callable[..., Lowering]) -> None:
    work = lowering()
    # What all blobs share is compiled while code is generated, and each of these ends it.
    for stage in ("generate", "compile"):
        status, printed = work.interrupt(work.from_python, "cc1plus", False, stage)
        assert status == -signal.SIGINT
        assert "\nKeyboardInterrupt" in printed
        assert f"{stage} fail" in printed
        assert work.processes() == {}
        assert work.left_files() == []

    status, printed = work.interrupt(work.from_command_line, "cc1plus", whole_group=True)
    assert status == 130
    assert "Traceback" not in printed
    assert printed.splitlines()[-1] == "interrupted: lower did not finish"
    assert work.processes() == {}
    assert work.left_files() == []

    assert work.start(work.from_python).wait(300) == 0
    assert work.output.stat().st_size > 1000
    assert work.processes() == {}


@pytest.mark.parametrize("whole_group", [False, True])
def test_while_a_kernel_is_assembled(
    lowering: Callable[..., Lowering], tmp_path: Path, whole_group: bool
) -> None:
    from triton.knobs import nvidia

    slow = tmp_path / "slow_ptxas"
    asked = f'[ "$1" = --version ] && exec {nvidia.ptxas.path} --version'
    slow.write_text(f"#!/bin/sh\n{asked}\nexec {shutil.which('sleep')} 600\n")
    slow.chmod(0o755)
    cache = cache_without_blobs(tmp_path / "cache")
    # Triton 3.9 asks another variable for GPUs like this one.
    work = lowering(TRITON_PTXAS_PATH=str(slow), TRITON_PTXAS_BLACKWELL_PATH=str(slow))
    status, printed = work.interrupt(work.from_python, "sleep", whole_group)
    assert status == -signal.SIGINT
    assert "\nKeyboardInterrupt" in printed
    assert "generate fail" in printed
    assert work.processes() == {}
    assert work.left_files() == []

    work = lowering(AOTI_PLUGINS_CACHE_DIR=cache)
    assert work.start(work.from_command_line).wait(300) == 0
    assert work.output.stat().st_size > 1000
    assert work.left_files() == [str(work.output)]


def test_while_triton_is_digested(tmp_path: Path) -> None:
    environment = {**os.environ, "AOTI_PLUGINS_CACHE_DIR": str(tmp_path)}
    command = (sys.executable, "-c", DIGEST)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"sleeps\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PROMPTLY) != 0
        finally:
            process.kill()
