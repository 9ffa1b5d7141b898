"""The libraries for Macs, linked here against the macOS wheel of executorch: what is in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import lief
import pytest
from macos_support import (
    BACKEND,
    NATIVE,
    RUNNER,
    download,
    exported,
    imported,
    read_library,
    run_tool,
)
from support import ROOT

SYSTEM = "/usr/lib/libSystem.B.dylib"
EXECUTORCH = "@rpath/libexecutorch.dylib"


@pytest.fixture(scope="session")
def backend(macos_libraries: Path) -> lief.MachO.Binary:
    return read_library(macos_libraries / BACKEND)


@pytest.fixture(scope="session")
def runner(macos_libraries: Path) -> lief.MachO.Binary:
    return read_library(macos_libraries / RUNNER)


def names_in(path: str, pattern: str) -> set[str]:
    """Return what a pattern finds in a native source outside of what is of Linux alone."""
    text = (NATIVE / path).read_text()
    text = re.sub(r"#ifdef __linux__.*?#endif", "", text, flags=re.DOTALL)
    return set(re.findall(pattern, text))


def shims() -> set[str]:
    """The shims of the library: those of all devices but the CPU's own, and those of MPS."""
    text = (NATIVE / "src" / "shim" / "names.inc").read_text()
    text = re.sub(r"#ifndef AOTIP_WITHOUT_CPU_KERNELS.*?#endif", "", text, flags=re.DOTALL)
    pattern = r"AOTIP_SHIM\((\w+)\)"
    operators = names_in(
        "include/aoti_plugins/operators.inc", r"(?m)^AOTIP_(?:MPS_)?OPERATOR\((\w+)"
    )
    return (
        set(re.findall(pattern, text))
        | names_in("src/mps/exports/names.inc", pattern)
        | {f"aoti_torch_mps_{name}" for name in operators}
        | {"aoti_torch_cpu_view_as_real", "aoti_torch_cpu_view_dtype"}
    )


@pytest.mark.parametrize(
    ("name", "needed"),
    [(BACKEND, [SYSTEM, EXECUTORCH]), (RUNNER, [SYSTEM, EXECUTORCH, f"@rpath/{BACKEND}"])],
)
def test_header(macos_libraries: Path, name: str, needed: list[str]) -> None:
    library = read_library(macos_libraries / name)
    assert library.header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64
    assert library.header.file_type == lief.MachO.Header.FILE_TYPE.DYLIB
    assert library.has_code_signature
    assert list(library.build_version.minos)[:2] == [12, 0]
    assert [one.name for one in library.libraries] == [f"@rpath/{name}", *needed]
    rpaths = ["@loader_path", "@loader_path/../../executorch/lib"]
    assert [one.path for one in library.rpaths] == rpaths


def test_exports_are_the_shims_and_the_c_functions(backend: lief.MachO.Binary) -> None:
    functions = {"aotip_thread_atexit", "aotip_mps_shim_names"}
    functions |= names_in("include/aoti_plugins/delegate.h", r"\b(aotip_\w+)\(")
    functions |= names_in("include/aoti_plugins/blob_kernels.h", r"\b(aotip_kernel_\w+)[(;]")
    functions |= names_in("include/aoti_plugins/shim.h", r"\b(aotip_shim_\w+)\(")
    # A name that a pragma gives is not mangled: no underscore is put before it.
    shim_names = {f"aotip_{name}" for name in shims()}
    # What the runner's library uses: constructors and destructors, as the ABI has them twice.
    gate = {f"__ZN12aoti_plugins13InsideLibrary{kind}Ev" for kind in ("C1", "C2", "D1", "D2")}
    scope = "__ZN12aoti_plugins13CallPartScope"
    part = {f"{scope}C{i}ENS_8CallPartE" for i in (1, 2)} | {f"{scope}D{i}Ev" for i in (1, 2)}
    assert exported(backend) - gate - part == shim_names | {f"_{name}" for name in functions}
    assert gate & exported(backend)
    assert part & exported(backend)


def test_the_runner_exports_its_c_functions(runner: lief.MachO.Binary) -> None:
    pattern = r"AOTIP_RUNNER_EXPORT .*?\b(aotip_\w+)\("
    functions = names_in("include/aoti_plugins/runner.h", pattern)
    functions |= names_in("include/aoti_plugins/generation.h", pattern)
    assert len(functions) > 15
    assert exported(runner) == {f"_{name}" for name in functions}


def test_imports_are_the_systems_and_executorchs(
    backend: lief.MachO.Binary,
) -> None:
    bound = imported(backend)
    assert set(bound.values()) == {SYSTEM, EXECUTORCH}
    runtime = {name for name, library in bound.items() if library == EXECUTORCH}
    assert all(name.startswith("__ZN10executorch7runtime") for name in runtime)
    assert any("register_backend" in name for name in runtime)
    assert not {name for name in bound if "objc" in name or "MTL" in name}


def test_imports_of_the_runner(runner: lief.MachO.Binary, backend: lief.MachO.Binary) -> None:
    bound = imported(runner)
    assert set(bound.values()) == {SYSTEM, EXECUTORCH, f"@rpath/{BACKEND}"}
    runtime = {name for name, library in bound.items() if library == EXECUTORCH}
    assert all("10executorch" in name for name in runtime)
    assert any("load_method" in name for name in runtime)
    ours = {name for name, library in bound.items() if library.endswith(BACKEND)}
    assert "_aotip_delegate_last_error" in ours
    assert ours <= exported(backend)


def test_programs_import_what_it_exports(
    backend: lief.MachO.Binary, mps_programs: Callable[..., Path]
) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary

    from aoti_plugins.lowering.artifacts.mach_o import is_mach_o

    offered = exported(backend)
    for name in ("mlp", "transformer", "decoder"):
        named = deserialize_pte_binary(mps_programs(name).read_bytes()).named_data
        assert named is not None
        buffers = [bytes(named.buffers[entry.buffer_index]) for entry in named.pte_data.values()]
        (blob,) = (data for data in buffers if is_mach_o(data))
        parsed = lief.MachO.parse(list(blob))
        assert parsed is not None
        taken = {str(symbol.name) for symbol in parsed.at(0).imported_symbols}
        ours = {symbol for symbol in taken if "aotip_" in symbol}
        assert "aotip_aoti_torch_mps_start_encoding" in ours
        assert ours <= offered


@pytest.mark.parametrize("name", [BACKEND, RUNNER])
def test_no_path_of_this_machine(macos_libraries: Path, name: str) -> None:
    data = (macos_libraries / name).read_bytes()
    assert str(ROOT).encode() not in data
    assert b"/tmp/" not in data


@pytest.mark.long
def test_two_builds_are_equal_bytes(
    macos_libraries: Path, macos_executorch: Path, tmp_path: Path
) -> None:
    run_tool("build_macos.py", macos_executorch, tmp_path)
    for name in (BACKEND, RUNNER):
        assert (tmp_path / name).read_bytes() == (macos_libraries / name).read_bytes()


def test_what_it_says_to_metal_is_what_metal_understands(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    headers = download("AOTI_PLUGINS_METAL_CPP", "mlx-metal", tmp_path_factory.mktemp("metal_cpp"))
    printed = run_tool("check_metal_names.py", headers)
    assert re.fullmatch(r"\d+ selectors are as metal-cpp has them\n", printed)
