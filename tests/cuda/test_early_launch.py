"""Kernels that are launched before those in front of them have ended wait for them."""

from __future__ import annotations

import dataclasses
import io
import os
import time
from pathlib import Path

import pytest
import torch
from elftools.elf.elffile import ELFFile
from support import lower

from aoti_plugins import CudaPartitioner
from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda import kernel_image
from aoti_plugins.cuda.inductor.early_launch import (
    assembled,
    assembly_that_waits,
    begins_early,
    waiting_binary,
)
from aoti_plugins.cuda.lowering import environment
from aoti_plugins.cuda.target import TARGETS, CudaTarget, cuda_target_of
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts import compiler
from aoti_plugins.lowering.inductor.capture import GpuKernel
from aoti_plugins.lowering.inductor.own_folders import own_folders

BY_NAME = {target.name: target for target in TARGETS}
H100 = cuda_target_of(BY_NAME["h100"])


@pytest.fixture(scope="module")
def kernels() -> list[GpuKernel]:
    """Kernels of a small program, as Triton made them."""
    found: list[GpuKernel] = []

    def kept(gpu: CudaTarget, kernel: GpuKernel) -> bytes:
        found.append(kernel)
        return waiting_binary(gpu, kernel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_image, "waiting_binary", kept)
        x = torch.randn(3, 4099)
        lower(torch.nn.Softmax(-1), (x,), partitioner=CudaPartitioner(target="h100"))
    assert found
    return found


def sections(binary: bytes) -> dict[str, bytes]:
    return {section.name: section.data() for section in ELFFile(io.BytesIO(binary)).iter_sections()}


def test_the_assembler_is_used_as_triton_uses_it(kernels: list[GpuKernel]) -> None:
    for kernel in kernels:
        assert sections(assembled(H100, kernel, kernel.assembly)) == sections(kernel.binary)


def test_a_kernel_waits_before_anything_else(kernels: list[GpuKernel]) -> None:
    for kernel in kernels:
        text = next(name for name in sections(kernel.binary) if name.startswith(".text."))
        assert sections(waiting_binary(H100, kernel))[text] != sections(kernel.binary)[text]
        entry = assembly_that_waits(kernel).index("griddepcontrol.wait;")
        before = assembly_that_waits(kernel)[:entry].splitlines()
        assert before[-2:] == ["\tgriddepcontrol.launch_dependents;", "\t"]
        assert before[-3] == "{"


def test_binaries_are_made_while_the_wrapper_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[bool] = []

    def is_compiled() -> bool:
        commands = [" ".join(map(str, process.args)) for process in list(compiler._all_running)]
        return any("wrapper.cpp" in command for command in commands)

    def made(gpu: CudaTarget, kernel: GpuKernel) -> bytes:
        until = time.monotonic() + 5
        while not is_compiled() and time.monotonic() < until:
            time.sleep(0.01)
        beside.append(is_compiled())
        return waiting_binary(gpu, kernel)

    monkeypatch.setattr(kernel_image, "waiting_binary", made)
    for _ in range(2):  # the second blob comes from the cache
        lower(torch.nn.ReLU(), (torch.randn(3, 4),), partitioner=CudaPartitioner(target="h100"))
    assert beside == [True, True]
    assert not compiler._all_running


def test_only_single_targets_from_hopper_on_begin_early() -> None:
    early = {name for name, target in BY_NAME.items() if begins_early(cuda_target_of(target))}
    assert {"h100", "h200", "b200"} <= early
    assert not {"a100", "portable"} & early


def test_assembly_that_does_not_fit_is_refused(kernels: list[GpuKernel]) -> None:
    (kernel, *_) = kernels
    for assembly, entries in (("", 0), (kernel.assembly * 2, 2)):
        with pytest.raises(LoweringError, match=f"has {entries} entry points, expected 1"):
            waiting_binary(H100, dataclasses.replace(kernel, assembly=assembly))
    said = r"the assembler failed for the kernel (.|\n)* \.version "
    with pytest.raises(LoweringError, match=said):
        assembled(H100, kernel, "nothing")


def test_an_assembler_of_the_users_is_taken(
    kernels: list[GpuKernel], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "ptxas"
    version = "echo 'Cuda compilation tools, release 12.8, V12.8.93'"
    own.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && {version} && exit\necho its own words >&2\nexit 3\n",
        encoding="utf-8",
    )
    own.chmod(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(own))
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", str(own))
    (kernel, *_) = kernels
    with pytest.raises(LoweringError, match=r"error code 3\n.*\nits own words"):
        assembled(H100, kernel, kernel.assembly)


def test_all_graphs_of_a_process_get_pytorchs_assembler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Inductor names it but once, for the first graph."""
    own = tmp_path / "bin" / "ptxas"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n", encoding="utf-8")
    own.chmod(0o755)
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    for _ in range(2):
        with own_folders(), environment(BY_NAME["h100"], LoweringOptions()):
            assert os.environ["TRITON_PTXAS_PATH"] == str(own)
    assert "TRITON_PTXAS_PATH" not in os.environ
