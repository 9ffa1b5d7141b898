"""Programs made by Zig: without a C++ compiler on the path, and for other machines."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from support import ROOT, lower
from torch import nn

from aoti_plugins import CpuPartitioner, CudaPartitioner, MpsPartitioner, native_files
from aoti_plugins.errors import LoweringError, ProgramError
from aoti_plugins.lowering.artifacts import zig
from aoti_plugins.lowering.artifacts.compiler import for_each, run
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler
from aoti_plugins.lowering.artifacts.elf import read_shared_object
from aoti_plugins.runtime import Program, register

sys.path.insert(0, str(ROOT / "tools"))
from glibc_versions import GLIBC, needed_versions

OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}
LIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}
LOADER = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


class Mixed(nn.Module):
    """Kernels with and without loops for threads, vector math, and kernels of the runtime's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 96)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.softmax(self.linear(x), -1)
        return y, x.sum(), torch.cumsum(x, 0), x.exp().mean(0), torch.tanh(x).amax(1)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path that is empty."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture(scope="module")
def inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return (torch.randn(4000, 64),)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Mixed().eval()


def check_blob(data: bytes, machine: str, runtime: set[str]) -> None:
    """It needs the runtime and glibc 2.28 alone, is small, and unloads what it made."""
    info = read_shared_object(data)
    assert info.machine == machine
    assert set(info.needed) <= {*runtime, *LIBC, LOADER[machine]}
    assert runtime <= set(info.needed)
    assert not [s for s in info.undefined if s.startswith(("aoti_", "cu", "__kmpc", "omp_", "_Z"))]
    assert all(s.startswith("AOTInductor") for s in info.exported)
    assert (2, 2, 5) <= needed_versions(BytesIO(data))[GLIBC] <= (2, 28)
    assert len(data) < 650_000


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_cpu_program_without_a_compiler(
    model: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    threads: str,
    tmp_path: Path,
    blobs_of: Callable,
    run_python: Callable[..., str],
) -> None:
    path = tmp_path / "program.pte"
    path.write_bytes(bytes(lower(model, inputs).buffer))
    for blob in blobs_of(path):
        check_blob(blob, "x86_64", {"libexecutorch_backend_aoti.so"})
    with torch.no_grad():
        torch.save((inputs, model(*inputs)), tmp_path / "expected.pt")
    script = f"""
        import torch
        from aoti_plugins.runtime import Program, register
        inputs, expected = torch.load({str(tmp_path / "expected.pt")!r})
        for _ in range(2):
            with Program({str(path)!r}) as program:
                torch.testing.assert_close(tuple(program(*inputs)), expected, rtol=1e-4, atol=1e-4)
        mapped = open("/proc/self/maps").read()
        print("memfd" in mapped)
    """
    assert run_python(script, AOTI_PLUGINS_NUM_THREADS=threads).strip() == "False"


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize(
    ("partitioner", "machine", "runtime"),
    [
        (lambda: CudaPartitioner(target="h100"), "x86_64", "cuda"),
        (lambda: CudaPartitioner(target="orin"), "aarch64", "cuda"),
        (lambda: CudaPartitioner(target="gh200"), "aarch64", "cuda"),
        (lambda: CpuPartitioner(target="aarch64-v8"), "aarch64", ""),
        (lambda: CpuPartitioner(target="aarch64-v8.6"), "aarch64", ""),
        (lambda: CpuPartitioner(target="aarch64-sve256"), "aarch64", ""),
    ],
    ids=["h100", "orin", "gh200", "aarch64-v8", "aarch64-v8.6", "aarch64-sve256"],
)
def test_programs_for_others_without_a_compiler(
    model: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    partitioner: Callable[[], Any],
    machine: str,
    runtime: str,
    tmp_path: Path,
    blobs_of: Callable,
) -> None:
    path = tmp_path / "program.pte"
    path.write_bytes(bytes(lower(model, inputs, partitioner=partitioner()).buffer))
    names = {"libexecutorch_backend_aoti.so"}
    if runtime:
        names.add(f"libexecutorch_backend_aoti_{runtime}.so")
    blobs = blobs_of(path)
    assert blobs
    for blob in blobs:
        check_blob(blob, machine, names)


@pytest.mark.usefixtures("no_compiler")
def test_a_program_for_macs_without_a_compiler(
    model: nn.Module, inputs: tuple[torch.Tensor, ...]
) -> None:
    program = bytes(lower(model, inputs, partitioner=MpsPartitioner()).buffer)
    assert b"@rpath/aoti_blob.dylib" in program


def test_a_program_for_several_machines_runs_here(
    model: nn.Module, inputs: tuple[torch.Tensor, ...]
) -> None:
    lowered = lower(model, inputs, targets=["aarch64-v8.6", "aarch64-v8", "x86_64-v3"])
    with Program(bytes(lowered.buffer)) as program, torch.no_grad():
        torch.testing.assert_close(tuple(program(*inputs)), model(*inputs), rtol=1e-4, atol=1e-4)
    lowered = lower(model, inputs, target="aarch64-v8.6")
    with pytest.raises(ProgramError, match=r"made for aarch64-v8\.6 \(aarch64 bf16\)"):
        Program(bytes(lowered.buffer))(*inputs)


class Rows(nn.Module):
    """Reads where the index says, in a loop for threads."""

    def forward(self, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return table[index] * 2


@pytest.mark.usefixtures("no_compiler")
def test_what_a_kernel_throws_is_an_error() -> None:
    table, index = torch.randn(50, 8), torch.randint(0, 50, (40_000,))
    with Program(bytes(lower(Rows(), (table, index)).buffer)) as program:
        for place in (0, 39_999):
            wrong = index.clone()
            wrong[place] = 50
            with pytest.raises(ProgramError, match="index out of bounds"):
                program(table, wrong)
        torch.testing.assert_close(program(table, index)[0], table[index] * 2)


@pytest.fixture
def kernels(tmp_path: Path) -> ctypes.CDLL:
    """The kernels of the runtime's own tests, compiled by Zig as a blob's are."""
    core = native_files.library(native_files.CORE)
    include = native_files.include_dir()
    flags = ["-std=c++20", "-O3", "-fopenmp", "-fPIC", f"-isystem{include}"]
    flags += [f"-isystem{include / 'aoti_plugins' / 'openmp'}"]
    flags += ["-include", "aoti_plugins/blob_openmp.h"]
    source = ROOT / "native" / "tests" / "openmp_kernel.cpp"
    compiled, made = tmp_path / "kernels.o", tmp_path / "kernels.so"
    compiler = zig.linux_compiler(read_shared_object(core.read_bytes()).machine)
    run([*compiler, *flags, "-c", str(source), "-o", str(compiled)], scratch=tmp_path)
    link = [*compiler, *zig.LINK_FLAGS, "-shared", "-Wl,-z,defs", str(compiled), str(core)]
    with zig.checked_zig_cache():
        run([*link, "-o", str(made)], scratch=tmp_path)
    register("cpu")  # loads what the core needs
    return ctypes.CDLL(str(made))


def test_pragmas_that_clang_compiled_run_on_the_team(kernels: ctypes.CDLL) -> None:
    check = kernels._Z18run_openmp_kernelsv
    check.restype = ctypes.c_char_p
    assert check() is None


@pytest.mark.usefixtures("no_compiler")
def test_an_interrupt_ends_zig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an empty cache, it compiles its C++ library for most of a minute."""
    monkeypatch.setenv("AOTI_PLUGINS_CACHE_DIR", str(tmp_path / "cache"))
    compiler = zig.linux_compiler("x86_64")
    source = tmp_path / "one.cpp"
    source.write_text("#include <string>\nstd::string f() { return std::string(3, 'a'); }\n")
    command = [*compiler, "-shared", str(source), "-o", str(tmp_path / "one.so")]

    def build(_: int) -> None:
        with zig.checked_zig_cache():
            run(command, scratch=tmp_path)

    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(2, signal.pthread_kill, (main, signal.SIGINT))
    # What a shell started with "&" ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            for_each(build, [0])
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 10
    listed = subprocess.run(["/bin/ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(tmp_path / "one.so") not in listed.stdout


def _pretend(folder: Path, script: str, name: str = "zig") -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 0.16.1", r"is version 0\.16\.1, and only 0\.17 is known to work: pip install 'zig"),
        ("echo no such CPU; exit 3", r"does not run: .*exit status 3(.|\n)*--force-reinstall"),
    ],
)
def test_a_zig_that_cannot_be_used(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _pretend(tmp_path, script)
    monkeypatch.setattr(zig, "_program", lambda: program)
    with pytest.raises(LoweringError, match=message):
        lower(nn.ReLU(), (torch.ones(2),))


@pytest.mark.usefixtures("no_compiler")
def test_a_zig_that_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "zig"
    program.write_bytes(os.urandom(100))
    monkeypatch.setattr(zig, "_program", lambda: program)
    with pytest.raises(LoweringError, match=r"does not run: .*Permission denied"):
        lower(nn.ReLU(), (torch.ones(2),))


def _gcc_for(folder: Path, machine: str) -> Path:
    answers = f"case $* in *-dumpmachine*) echo {machine}-linux-gnu;; *) echo g++;; esac"
    return _pretend(folder, answers, "g++")


def test_cxx_for_another_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", str(_gcc_for(tmp_path, "riscv64")))
    with pytest.raises(LoweringError, match=r"\$CXX, .*, makes riscv64 code: set it to a compiler"):
        lower(nn.ReLU(), (torch.ones(2),))


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("-march=armv8-a", "-mcpu=generic+v8a"),
        ("-march=armv8.2-a+fp16+dotprod", "-mcpu=generic+v8_2a+fullfp16+dotprod"),
        ("-march=armv8-a+bf16", "-mcpu=generic+v8a+bf16"),
        ("-mavx2", "-mavx2"),
    ],
)
def test_machines_in_zigs_words(flag: str, expected: str) -> None:
    assert zig.zig_flags([flag]) == [expected]


def test_a_fitting_gcc_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gcc = _gcc_for(tmp_path, "x86_64")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert cxx_compiler("x86_64") == [str(gcc)]
    assert zig.is_zig(cxx_compiler("aarch64"))
