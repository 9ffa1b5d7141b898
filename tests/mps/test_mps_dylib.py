"""The runtime for Macs, linked here against the macOS wheel of executorch: what is in it.

AOTI_PLUGINS_MACOS_EXECUTORCH and AOTI_PLUGINS_METAL_CPP name wheels, or what was unpacked from
them, that are otherwise downloaded; AOTI_PLUGINS_MPS_DYLIB names a library that is built already.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lief
import pytest
from filelock import FileLock
from support import ROOT

NATIVE = ROOT / "native"
NAME = "libexecutorch_backend_aoti_mps.dylib"
PLATFORM = "macosx_14_0_arm64"
# Marks that zig's linker leaves in every library.
LINKERS_OWN = {"__mh_dylib_header", "___dso_handle"}


def download(variable: str, requirement: str, folder: Path) -> Path:
    """Return the wheel that a variable names, or that the package index has."""
    if path := os.environ.get(variable):
        return Path(path)
    options = ["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--platform", PLATFORM]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{requirement} for macOS is not on this machine's index: {done.stderr[-300:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def build(output: Path, executorch: Path, *options: str) -> None:
    """Run the documented command."""
    command = [sys.executable, str(NATIVE / "tools" / "build_macos.py"), *options]
    done = subprocess.run(
        [*command, str(executorch), str(output)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def macos_executorch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("macos_executorch")
    return download("AOTI_PLUGINS_MACOS_EXECUTORCH", "executorch==1.5.*", folder)


@pytest.fixture(scope="session")
def dylib_path(shared_dir: Path, request: pytest.FixtureRequest) -> Path:
    if path := os.environ.get("AOTI_PLUGINS_MPS_DYLIB"):
        return Path(path)
    output = shared_dir / NAME
    with FileLock(f"{output}.lock"):
        if not output.exists():
            build(output, request.getfixturevalue("macos_executorch"))
    return output


@pytest.fixture(scope="session")
def dylib(dylib_path: Path) -> lief.MachO.Binary:
    lief.logging.disable()
    parsed = lief.MachO.parse(dylib_path)
    assert parsed is not None
    return parsed.at(0)


def names_in(path: str, pattern: str) -> set[str]:
    """Return what a pattern finds in a native source."""
    return set(re.findall(pattern, (NATIVE / path).read_text()))


def shims() -> set[str]:
    """The shims of the library: those of all devices but the CPU's own, and those of MPS."""
    text = (NATIVE / "src" / "shim" / "names.inc").read_text()
    text = re.sub(r"#ifndef AOTIP_WITHOUT_CPU_KERNELS.*?#endif", "", text, flags=re.DOTALL)
    pattern = r"AOTIP_SHIM\((\w+)\)"
    return set(re.findall(pattern, text)) | names_in("src/mps/names.inc", pattern)


def test_header(dylib: lief.MachO.Binary) -> None:
    assert dylib.header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64
    assert dylib.header.file_type == lief.MachO.Header.FILE_TYPE.DYLIB
    assert dylib.has_code_signature
    assert list(dylib.build_version.minos)[:2] == [12, 0]
    assert [library.name for library in dylib.libraries] == [
        f"@rpath/{NAME}",
        "/usr/lib/libSystem.B.dylib",
        "@rpath/libexecutorch.dylib",
    ]
    assert [path.path for path in dylib.rpaths] == [
        "@loader_path",
        "@loader_path/../../executorch/lib",
    ]


def test_exports_are_the_shims_and_the_c_functions(dylib: lief.MachO.Binary) -> None:
    exported = {str(symbol.name) for symbol in dylib.exported_symbols} - LINKERS_OWN
    functions = {"aotip_thread_atexit", "aotip_mps_shim_names"}
    functions |= names_in("include/aoti_plugins/delegate.h", r"\b(aotip_delegate_\w+)\(")
    functions |= names_in("include/aoti_plugins/shim.h", r"\b(aotip_shim_\w+)\(")
    # A name that a pragma gives is not mangled: no underscore is put before it.
    assert exported == {f"aotip_{name}" for name in shims()} | {f"_{name}" for name in functions}


def test_imports_are_the_systems_and_executorchs(dylib: lief.MachO.Binary) -> None:
    bound = {
        str(binding.symbol.name): str(binding.library.name)
        for binding in dylib.bindings
        if binding.symbol is not None and binding.library is not None
    }
    assert set(bound.values()) == {"/usr/lib/libSystem.B.dylib", "@rpath/libexecutorch.dylib"}
    runtime = {name for name, library in bound.items() if library.endswith("executorch.dylib")}
    assert all(name.startswith("__ZN10executorch7runtime") for name in runtime)
    assert any("register_backend" in name for name in runtime)
    assert not {name for name in bound if "objc" in name or "MTL" in name}


def test_programs_import_what_it_exports(
    dylib: lief.MachO.Binary, mps_programs: Callable[..., Path]
) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary

    from aoti_plugins.lowering.artifacts.mach_o import is_mach_o

    exported = {str(symbol.name) for symbol in dylib.exported_symbols}
    for name in ("mlp", "transformer", "decoder"):
        named = deserialize_pte_binary(mps_programs(name).read_bytes()).named_data
        assert named is not None
        buffers = [bytes(named.buffers[entry.buffer_index]) for entry in named.pte_data.values()]
        (blob,) = (data for data in buffers if is_mach_o(data))
        parsed = lief.MachO.parse(list(blob))
        assert parsed is not None
        imported = {str(symbol.name) for symbol in parsed.at(0).imported_symbols}
        ours = {symbol for symbol in imported if "aotip_" in symbol}
        assert "aotip_aoti_torch_mps_start_encoding" in ours
        assert ours <= exported


def test_no_path_of_this_machine(dylib_path: Path) -> None:
    data = dylib_path.read_bytes()
    assert str(ROOT).encode() not in data
    assert b"/tmp/" not in data


@pytest.mark.long
def test_two_builds_are_equal_bytes(
    dylib_path: Path, macos_executorch: Path, tmp_path: Path
) -> None:
    build(tmp_path / "again.dylib", macos_executorch)
    assert (tmp_path / "again.dylib").read_bytes() == dylib_path.read_bytes()


def test_what_it_says_to_metal_is_what_metal_understands(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    headers = download("AOTI_PLUGINS_METAL_CPP", "mlx-metal", tmp_path_factory.mktemp("metal_cpp"))
    done = subprocess.run(
        [sys.executable, str(NATIVE / "tools" / "check_metal_names.py"), str(headers)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"\d+ selectors are as metal-cpp has them\n", done.stdout)
