"""The C shims that a program can call: what the runtime exports, and what plugins provide."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aoti_plugins import native_files
from aoti_plugins.device import Device
from aoti_plugins.errors import RuntimeLoadError
from aoti_plugins.lowering.artifacts.elf import read_shared_object
from aoti_plugins.lowering.artifacts.mach_o import is_mach_o, read_mach_o
from aoti_plugins.lowering.artifacts.shared_object import LINK_NAME_PREFIX
from aoti_plugins.plugin_system.manager import RegisteredKernel
from aoti_plugins.types import BuiltinRuntime, LinkedObjects, SharedLibrary

_NOT_IN = {"libexecutorch_backend_aoti_cuda.so": frozenset({"aoti_torch_index_put_out"})}
"""What the core exports for all devices and has no kernel for on those of a library."""


@dataclass(frozen=True)
class AvailableShims:
    """What generated code may call.

    Attributes:
        builtin: names that the runtime library exports, without the link-name prefix.
        kernels: what plugins declared, by shim name; a declaration of a built-in one only narrows
            its dtypes.
    """

    builtin: frozenset[str]
    kernels: Mapping[str, RegisteredKernel]

    def __contains__(self, shim: object) -> bool:
        return shim in self.builtin or self._is_brought(shim)

    def _is_brought(self, shim: object) -> bool:
        kernel = self.kernels.get(str(shim))
        return kernel is not None and not isinstance(kernel.kernel.provider, BuiltinRuntime)

    def dtypes(self, shim: str) -> tuple[str, ...]:
        """Dtypes that a shim's kernel takes; empty: any."""
        return self.kernels[shim].kernel.dtypes if shim in self.kernels else ()

    def objects(self, shims: tuple[str, ...]) -> tuple[str, ...]:
        """Object files to link into a blob that calls these shims, each once, in order."""
        found = [p for provider in self._providers(shims, LinkedObjects) for p in provider.paths]
        return tuple(dict.fromkeys(found))

    def libraries(self, shims: tuple[str, ...]) -> tuple[tuple[SharedLibrary, str], ...]:
        """Libraries that a blob with these shims needs, each with the distribution it is from."""
        found = {
            self.kernels[shim].kernel.provider: self.kernels[shim].origin
            for shim in shims
            if shim in self.kernels
            and isinstance(self.kernels[shim].kernel.provider, SharedLibrary)
        }
        return tuple(found.items())  # type: ignore[arg-type]

    def _providers(self, shims: tuple[str, ...], kind: type) -> list:
        kernels = [self.kernels[shim].kernel for shim in shims if shim in self.kernels]
        return [kernel.provider for kernel in kernels if isinstance(kernel.provider, kind)]


def available(device: Device, kernels: Mapping[str, RegisteredKernel]) -> AvailableShims:
    """Shims of one device.

    Args:
        device: whose delegate's libraries have some.
        kernels: what plugins declared for the device.

    Raises:
        RuntimeLoadError: a library is not there, or none is for this system.
    """
    if not device.libraries:
        raise RuntimeLoadError(f"there is no delegate for device {device.name!r} on this system")
    paths = [native_files.library(name) for name in device.libraries]
    builtin = frozenset().union(*(_exported(path, path.stat().st_mtime_ns) for path in paths))
    left_out = (_NOT_IN.get(path.name, frozenset()) for path in paths)
    return AvailableShims(builtin.difference(*left_out), kernels)


@functools.lru_cache(maxsize=8)
def _exported(path: Path, mtime_ns: int) -> frozenset[str]:
    del mtime_ns  # part of the cache's key: a rebuilt library is read again
    data = path.read_bytes()
    exported = (read_mach_o if is_mach_o(data) else read_shared_object)(data).exported
    prefix = f"{LINK_NAME_PREFIX}aoti_"
    return frozenset(s.removeprefix(LINK_NAME_PREFIX) for s in exported if s.startswith(prefix))
