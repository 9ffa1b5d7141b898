"""Finds the native libraries and loads them, each once per process and in the order they need."""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from aoti_plugins.device import Device
from aoti_plugins.errors import RuntimeLoadError
from aoti_plugins.native_files import CORE, LIBRARY_SUFFIX, has_library, library
from aoti_plugins.plugin_system.devices import delegates
from aoti_plugins.runtime import _kernel_libraries
from aoti_plugins.runtime._locks import new_lock

logger = logging.getLogger(__name__)

# ExecuTorch's own backends that a delegate of ours can stand in for; must match
# native/src/cuda/upstream/upstream_backend.h.
UPSTREAM_IDS = {"cuda": "CudaBackend"}

# In this order: each needs those before it. The last one is optional, for programs that mix
# delegates.
_EXECUTORCH_LIBRARIES = (
    ("libexecutorch", True),
    ("libexecutorch_threadpool", True),
    ("libexecutorch_kernels_optimized", True),
    ("libexecutorch_backend_xnnpack", False),
)

_OTHER_VERSION = "is of another version than the Python part. Reinstall aoti-plugins."
_INSTALL_EXECUTORCH = "pip install 'executorch==1.5.*'"
_lock = new_lock()
_loaded: dict[Path, ctypes.CDLL] = {}


def register(device: str = "cpu", *, upstream: bool = False) -> None:
    """Load a delegate into this process, so that any ExecuTorch runtime in it can run its programs.

    Idempotent and thread-safe. Works before and after ``import executorch.runtime``.

    Args:
        device: whose delegate, ``"cpu"``, ``"cuda"``, ``"mps"``, or that of another package. Those
            for GPUs load on machines without one, too; what needs one then says so.
        upstream: also run the programs of ExecuTorch's own backend for the device, unless somebody
            has registered that one. For ``"cuda"`` only, whose id is ``CudaBackend``. ``Program``
            needs no such call.

    Raises:
        RuntimeLoadError: the device has no delegate here, or a library is missing or does not load;
            the message names it and says what to install.
    """
    if device not in delegates():
        known = ", ".join(sorted(delegates()))
        raise RuntimeLoadError(
            f"there is no delegate for device {device!r} on this system; there is one for {known}"
        )
    if upstream and device not in UPSTREAM_IDS:
        known = ", ".join(map(repr, UPSTREAM_IDS))
        raise RuntimeLoadError(
            f"no backend of ExecuTorch's own for device {device!r} is known here, only for {known}"
        )
    load_executorch()
    for name in delegates()[device].libraries:
        load(library(name))
    _kernel_libraries.announce(load(library(CORE)))
    if upstream:
        _stand_in(UPSTREAM_IDS[device])


def _stand_in(backend: str) -> None:
    """Have a library of ours run the programs of a backend that nobody has registered."""
    function = core_function("aotip_delegate_stand_in", ctypes.c_int32, ctypes.c_char_p)
    if function(backend.encode()) == 0:
        raise RuntimeLoadError(f"{backend} cannot be registered: ExecuTorch takes no more backends")


def blob_place() -> str:
    """Return from where code of programs is loaded: ``"memory"``, or files and their folder.

    Raises:
        RuntimeLoadError: there is no place for it, or no library.
    """
    if sys.platform != "linux":
        return f"files in {os.environ.get('TMPDIR') or '/tmp'}"
    register()
    place = core_function("aotip_blob_place", ctypes.c_char_p)()
    if place is None:
        raise RuntimeLoadError(core_error("", "aotip_shim_last_error"))
    return os.fsdecode(place)


def product_kernels() -> str:
    """Return whose kernels products with constants run on, on the CPU, with a path or a reason.

    Of Linux, as running on the CPU.

    Raises:
        RuntimeLoadError: no library.
    """
    register()
    return os.fsdecode(core_function("aotip_product_kernels", ctypes.c_char_p)())


def register_all() -> None:
    """Load the delegates that this installation has; without any, fail as ``register`` does."""
    load_executorch()
    _kernel_libraries.announce(load(library(CORE)))
    for device in delegates().values():
        if has_library(device.libraries[-1]):
            _load_delegate(device)


def _load_delegate(device: Device) -> None:
    try:
        for name in device.libraries:
            load(library(name))
    except RuntimeLoadError as error:
        if not os.path.isabs(device.libraries[-1]):
            raise
        logger.warning(
            "programs for device %r of another package cannot run: %s", device.name, error
        )


def load_executorch() -> None:
    """Load ExecuTorch's runtime and kernels from its wheel, without importing the package."""
    folder = executorch_library_dir()
    for name, required in _EXECUTORCH_LIBRARIES:
        path = folder / f"{name}{LIBRARY_SUFFIX}"
        if path.exists():
            load(path)
        elif required:
            raise RuntimeLoadError(
                f"{path} is missing: the executorch package is incomplete or older than 1.5. "
                f"Reinstall it: {_INSTALL_EXECUTORCH}"
            )


def executorch_library_dir() -> Path:
    """Return the folder of ExecuTorch's libraries in the installed executorch package."""
    spec = importlib.util.find_spec("executorch")
    folders = [Path(root) / "lib" for root in (spec and spec.submodule_search_locations) or ()]
    if not folders:
        raise RuntimeLoadError(f"executorch is not installed: {_INSTALL_EXECUTORCH}")
    name = f"libexecutorch{LIBRARY_SUFFIX}"
    for folder in folders:
        if (folder / name).exists():
            return folder
    searched = ", ".join(map(str, folders))
    raise RuntimeLoadError(
        f"executorch has no {name} in {searched}: only the wheels of version 1.5 and "
        f"later bring it. Install one: {_INSTALL_EXECUTORCH}"
    )


def library_path(device: str) -> Path:
    """Return the path of a device's delegate library."""
    return library(delegates()[device].libraries[-1])


def load(path: Path) -> ctypes.CDLL:
    """Load one library by its full path, keeping its symbols to itself."""
    with _lock:
        if path not in _loaded:
            try:
                _loaded[path] = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
            except OSError as error:
                raise RuntimeLoadError(
                    f"{path} does not load: {error}. {_advice(error)}"
                ) from error
        return _loaded[path]


def core_function(
    name: str, result: type, *arguments: type, missing: str = _OTHER_VERSION
) -> Callable[..., Any]:
    """Return a C function of the library that the delegates of all devices share.

    Args:
        name: of the function.
        result: its type.
        arguments: their types.
        missing: what to say of a library without it, behind its path.

    Raises:
        RuntimeLoadError: it has none, or does not load.
    """
    load_executorch()
    core = load(library(CORE))
    if not hasattr(core, name):
        raise RuntimeLoadError(f"{core._name} {missing}")
    function = getattr(core, name)
    function.restype, function.argtypes = result, arguments
    return cast(Callable[..., Any], function)


def core_error(otherwise: str, function: str = "aotip_delegate_last_error") -> str:
    """Return why a call of that library failed that was just made on this thread."""
    reason = core_function(function, ctypes.c_char_p)()
    return (reason or otherwise.encode()).decode(errors="replace")


def _advice(error: OSError) -> str:
    text = str(error)
    if "GLIBC" in text or "CXXABI" in text:
        return "The system's C or C++ library is older than the one it was built with."
    if "undefined symbol" in text:
        return (
            "It was built with another executorch than the installed one: run "
            "'aoti-plugins doctor', and reinstall aoti-plugins and executorch together."
        )
    return "Run 'aoti-plugins doctor' to see what is missing."
