"""The checks of ``aoti-plugins doctor``: each looks at one thing and says what it is needed for."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from aoti_plugins.cli._output import nbytes_text
from aoti_plugins.cuda.driver_library import open_driver
from aoti_plugins.errors import AotiPluginsError, LoweringError

LOWER_CPU, RUN_CPU, LOWER_CUDA, RUN_CUDA, LOWER_MPS = (
    "lowering for cpu",
    "running on cpu",
    "lowering for cuda",
    "running on cuda",
    "lowering for mps",
)
OTHER_MACHINES = "lowering for other machines"
CPU_PATH = (LOWER_CPU, RUN_CPU)


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        name: what was looked for.
        ok: whether it is there and can be used.
        found: version or place, or what is wrong.
        needed_for: what does not work without it.
        advice: what to do; empty if it is fine.
    """

    name: str
    ok: bool
    found: str
    needed_for: tuple[str, ...]
    advice: str = ""


def run_checks() -> list[Finding]:
    """Make all checks; a check that fails in a way of its own becomes a finding too."""
    return [finding for check in _CHECKS for finding in _guarded(check)]


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except Exception as error:
        name = check.__name__.strip("_").replace("_", " ")
        problem = f"the check failed: {type(error).__name__}: {error}"
        return [Finding(name, False, problem, CPU_PATH, "Report this as a bug.")]


def _python() -> list[Finding]:
    ok = (3, 10) <= sys.version_info[:2] <= (3, 13)
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return [Finding("python", ok, found, CPU_PATH, "" if ok else "Use Python 3.10 to 3.13.")]


def _compiler() -> list[Finding]:
    from aoti_plugins.cpu.target import host_machine
    from aoti_plugins.lowering.artifacts.compiler import compiler_identity
    from aoti_plugins.lowering.artifacts.cxx import cxx_compiler
    from aoti_plugins.lowering.artifacts.zig import is_zig

    needed_for = (LOWER_CPU, LOWER_CUDA)
    try:
        command = cxx_compiler(host_machine())
        first_line = compiler_identity(tuple(command)).partition("\n")[0]
    except LoweringError as error:
        problem, _, advice = str(error).partition(": ")
        return [Finding("C++ compiler", False, problem, needed_for, advice)]
    found = f"Zig's {first_line}" if is_zig(command) else f"{first_line} ({command[0]})"
    return [Finding("C++ compiler", True, found, needed_for)]


def _packages() -> list[Finding]:
    return [
        _package("torch", (LOWER_CPU, LOWER_CUDA, LOWER_MPS), "pip install 'torch>=2.11'", (2, 11)),
        _package("executorch", (*CPU_PATH, RUN_CUDA), "pip install 'executorch==1.5.*'", (1, 5)),
        _package("triton", (LOWER_CUDA,), "pip install triton"),
        _package("ziglang", (LOWER_MPS, OTHER_MACHINES), "pip install 'aoti-plugins[mps]'"),
        _package("lief", (LOWER_MPS,), "pip install 'aoti-plugins[mps]'"),
    ]


def _package(
    name: str, needed_for: tuple[str, ...], install: str, minimum: tuple[int, int] = (0, 0)
) -> Finding:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, False, "not installed", needed_for, install)
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    old = numbers < minimum
    return Finding(name, not old, found, needed_for, install if old else "")


def _executorch_libraries() -> list[Finding]:
    from aoti_plugins.runtime._libraries import executorch_library_dir, load_executorch

    try:
        load_executorch()
        found, ok, advice = str(executorch_library_dir()), True, ""
    except AotiPluginsError as error:
        found, ok, advice = str(error), False, "pip install 'executorch==1.5.*'"
    return [Finding("executorch's libraries", ok, found, CPU_PATH, advice)]


def _native_libraries() -> list[Finding]:
    from aoti_plugins.native_files import RUNNER, library
    from aoti_plugins.plugin_system.devices import delegates
    from aoti_plugins.runtime import register

    checks: list[tuple[str, str | Path, Callable[[], object], tuple[str, ...]]] = [
        (
            f"delegate for {name}",
            device.libraries[-1],
            partial(register, name),
            (f"lowering for {name}", f"running on {name}"),
        )
        for name, device in delegates().items()
    ]
    checks.append(("runner", RUNNER, _load_runner, (RUN_CPU, RUN_CUDA)))
    findings = []
    for name, file, load, needed_for in checks:
        try:
            load()
            findings.append(Finding(name, True, str(library(file)), needed_for))
        except AotiPluginsError as error:
            advice = "pip install --force-reinstall --no-deps aoti-plugins"
            findings.append(Finding(name, False, str(error), needed_for, advice))
    return findings


def _blob_place() -> list[Finding]:
    """Where code of programs is put before it is loaded."""
    from aoti_plugins.runtime._libraries import blob_place

    try:
        return [Finding("code of programs", True, f"loaded from {blob_place()}", (RUN_CPU,))]
    except AotiPluginsError as error:
        advice = "Set AOTI_PLUGINS_BLOB_DIR to a folder of yours from which code may be run."
        return [Finding("code of programs", False, str(error), (RUN_CPU, RUN_CUDA), advice)]


def _product_kernels() -> list[Finding]:
    """Whose kernels multiply on the CPU; without XNNPACK's, ours do, more slowly."""
    if sys.platform != "linux":
        return []
    from aoti_plugins.runtime._libraries import product_kernels

    return [Finding("products on the cpu", True, f"kernels of {product_kernels()}", (RUN_CPU,))]


def _load_runner() -> None:
    from aoti_plugins.runtime import backends

    if "AotiCpuBackend" not in backends():
        raise AotiPluginsError(
            f"AotiCpuBackend is not registered; there are: {', '.join(backends())}"
        )


def _cuda_headers() -> list[Finding]:
    from aoti_plugins.cuda import toolkit

    try:
        found = str(toolkit.include_dir())
    except AotiPluginsError as error:
        what, _, advice = str(error).partition(": ")
        return [Finding("CUDA headers", False, what, (LOWER_CUDA,), advice)]
    return [Finding("CUDA headers", True, found, (LOWER_CUDA,))]


def _cuda_driver() -> list[Finding]:
    driver = open_driver()
    if driver is None:
        advice = "Install NVIDIA's driver; programs for cuda can be made without it."
        return [Finding("CUDA driver", False, "no libcuda.so.1", (RUN_CUDA,), advice)]
    number = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(number)):
        return [Finding("CUDA driver", False, "does not start", (RUN_CUDA,), "Run nvidia-smi.")]
    found = f"CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    return [Finding("CUDA driver", True, found, (RUN_CUDA,))]


def _compile_cache() -> list[Finding]:
    from aoti_plugins.lowering.artifacts.cache_folder import (
        CACHE_DIR_VARIABLE,
        CacheNotPrivateError,
        cache_dir,
        check_private,
    )

    folder = cache_dir()
    needed_for = (LOWER_CPU, LOWER_CUDA, LOWER_MPS)
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if there == folder:
        try:
            check_private(folder, CACHE_DIR_VARIABLE)
        except CacheNotPrivateError as error:
            return [Finding("compile cache", False, str(error), needed_for)]
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    nbytes = sum(map(_nbytes, files))
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    found = f"{folder}, {nbytes_text(nbytes)}" if writable else f"{there} cannot be written"
    advice = "" if writable else f"Set {CACHE_DIR_VARIABLE} to a folder that can."
    return [Finding("compile cache", writable, found, needed_for, advice)]


def _nbytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a lowering that goes on has dropped it
        return 0


def _plugins() -> list[Finding]:
    from aoti_plugins.cli._inspection import inspect_plugins, library_problems

    manager = inspect_plugins()
    infos = manager.plugins()
    problems = [info.error for info in infos if info.error]
    problems += manager.conflicts() + library_problems(manager)
    names = ", ".join(info.name for info in infos if not info.error) or "none"
    advice = "Run 'aoti-plugins plugins'." if problems else ""
    found = "; ".join([names, *problems])
    return [Finding("plugins", not problems and bool(infos), found, (LOWER_CPU,), advice)]


_CHECKS = (
    _python,
    _compiler,
    _packages,
    _executorch_libraries,
    _native_libraries,
    _blob_place,
    _product_kernels,
    _compile_cache,
    _plugins,
    _cuda_headers,
    _cuda_driver,
)
