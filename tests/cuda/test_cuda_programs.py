"""CUDA programs that were lowered without a GPU: whole graphs, the right code, our symbols."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aoti_plugins import native_files
from aoti_plugins.cuda.device import CUDA
from aoti_plugins.cuda.target import target_by_name
from aoti_plugins.lowering.artifacts.elf import read_shared_object

NAMES = ["cnn", "transformer", "decoder"]
Contents = Callable[[Path], tuple[list[Any], dict[str, bytes], list[str]]]
Programs = Callable[[str], Path]

# What every Linux with a C++ runtime has.
SYSTEM = {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}
_CUBIN_MACHINE = 190
_ABI_VERSION = 8  # where it is in the header
_ABI_OF_CUDA_13 = 8  # has the architecture one byte further up


def blobs(name: str, cuda_programs: Programs, contents: Contents) -> Iterator[tuple[Any, bytes]]:
    """Each target of a program with its shared object."""
    payloads, named, _ = contents(cuda_programs(name))
    for payload in payloads:
        for target in payload.targets:
            yield target, named[target.artifact_key]


def architectures(blob: bytes) -> set[int]:
    """Compute capabilities of the GPU binaries inside a shared object."""
    found = set()
    for match in re.finditer(b"\x7fELF", blob):
        header = blob[match.start() : match.start() + 64]
        if struct.unpack_from("<H", header, 18)[0] == _CUBIN_MACHINE:
            flags = struct.unpack_from("<I", header, 48)[0]
            found.add((flags >> 8 if header[_ABI_VERSION] >= _ABI_OF_CUDA_13 else flags) & 0xFF)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_graph_is_delegated(
    name: str, cuda_programs: Programs, contents: Contents
) -> None:
    payloads, _, outside = contents(cuda_programs(name))
    assert outside == []
    assert [payload.device for payload in payloads] == ["cuda"]
    assert [target.name for target in payloads[0].targets] == ["a100", "h100"]


@pytest.mark.parametrize("name", NAMES)
def test_every_symbol_is_ours_or_the_systems(
    name: str, cuda_programs: Programs, contents: Contents
) -> None:
    libraries = [native_files.library(library) for library in CUDA.libraries]
    ours = set().union(*(read_shared_object(p.read_bytes()).exported for p in libraries))
    for target, blob in blobs(name, cuda_programs, contents):
        info = read_shared_object(blob)
        assert set(info.needed) <= SYSTEM | {path.name for path in libraries}
        prefixed = {symbol for symbol in info.undefined if symbol.startswith("aotip_")}
        assert prefixed <= ours
        launch = "aotip_launch_early" if target.name == "h100" else "aotip_cuLaunchKernel"
        assert {"aotip_launch_early", "aotip_cuLaunchKernel"} & prefixed == {launch}
        foreign = [
            s for s in info.undefined if re.match(r"(cu[A-Z]|cuda[A-Z]|aoti_|_?at_|_ZN2at)", s)
        ]
        assert foreign == []


@pytest.mark.parametrize("name", NAMES)
def test_machine_code_is_for_the_target(
    name: str, cuda_programs: Programs, contents: Contents
) -> None:
    for target, blob in blobs(name, cuda_programs, contents):
        gpu = target_by_name(target.name)
        assert architectures(blob) == {gpu.capability_number}
        assert gpu.arch in target.features
        limit = next(f for f in target.features if f.startswith("shared_memory_"))
        assert int(limit.removeprefix("shared_memory_")) <= gpu.shared_memory_per_block


@pytest.mark.parametrize("name", NAMES)
def test_nothing_names_this_machine(name: str, cuda_programs: Programs, contents: Contents) -> None:
    for _, blob in blobs(name, cuda_programs, contents):
        assert b"torchinductor" not in blob
        assert str(Path.home()).encode() + b"/" not in blob
        assert b"/tmp/" not in blob


def test_attention_has_kernels_of_its_own(cuda_programs: Programs, contents: Contents) -> None:
    for name in ("transformer", "decoder"):
        for target, blob in blobs(name, cuda_programs, contents):
            assert b"attention" in blob, target.name
            assert "aoti_torch_cuda_bmm_out" not in target.symbols


def test_weights_are_stored_once_for_both_targets(
    cuda_programs: Programs, contents: Contents, example_models: dict[str, Callable[[], Any]]
) -> None:
    model, _ = example_models["transformer"]()
    (payload,), _, _ = contents(cuda_programs("transformer"))
    storages = {p.untyped_storage().data_ptr() for p in model.state_dict().values()}
    assert len(payload.storages) == len(storages)
