"""AOTInductor delegates for ExecuTorch, as plugins.

The public names below are imported when they are first used: importing this package imports
neither torch nor executorch.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # that of typing, whose import would take most of the command line's start
if TYPE_CHECKING:
    from aoti_plugins.blob_names import ReadableNames
    from aoti_plugins.cpu.backend import AotiCpuBackend
    from aoti_plugins.cpu.partitioner import CpuPartitioner
    from aoti_plugins.cuda.backend import AotiCudaBackend
    from aoti_plugins.cuda.partitioner import CudaPartitioner
    from aoti_plugins.errors import (
        AotiPluginsError,
        LoweringError,
        PayloadError,
        PluginConflictError,
        PluginError,
        ProgramError,
        RuntimeLoadError,
        UnsupportedError,
    )
    from aoti_plugins.hooks import hookimpl
    from aoti_plugins.lowering.scalars import scalar_value
    from aoti_plugins.lowering.stage_display import show_progress
    from aoti_plugins.mps.backend import AotiMpsBackend
    from aoti_plugins.mps.partitioner import MpsPartitioner
    from aoti_plugins.plugin_system.manager import PluginManager, get_manager
    from aoti_plugins.runtime import Program
    from aoti_plugins.types import (
        BlobName,
        BuiltinRuntime,
        CShim,
        FallbackKernel,
        GraphPass,
        LinkedObjects,
        ProgressEvent,
        SharedLibrary,
        Target,
    )

    __version__: str

_MODULE_OF = {
    "AotiCpuBackend": "cpu.backend",
    "AotiCudaBackend": "cuda.backend",
    "AotiMpsBackend": "mps.backend",
    "AotiPluginsError": "errors",
    "BlobName": "types",
    "BuiltinRuntime": "types",
    "CShim": "types",
    "CpuPartitioner": "cpu.partitioner",
    "CudaPartitioner": "cuda.partitioner",
    "FallbackKernel": "types",
    "GraphPass": "types",
    "LinkedObjects": "types",
    "LoweringError": "errors",
    "MpsPartitioner": "mps.partitioner",
    "PayloadError": "errors",
    "PluginConflictError": "errors",
    "PluginError": "errors",
    "PluginManager": "plugin_system.manager",
    "Program": "runtime",
    "ProgramError": "errors",
    "ProgressEvent": "types",
    "ReadableNames": "blob_names",
    "RuntimeLoadError": "errors",
    "SharedLibrary": "types",
    "Target": "types",
    "UnsupportedError": "errors",
    "get_manager": "plugin_system.manager",
    "hookimpl": "hooks",
    "scalar_value": "lowering.scalars",
    "show_progress": "lowering.stage_display",
}

__all__ = [  # must match _MODULE_OF
    "AotiCpuBackend",
    "AotiCudaBackend",
    "AotiMpsBackend",
    "AotiPluginsError",
    "BlobName",
    "BuiltinRuntime",
    "CShim",
    "CpuPartitioner",
    "CudaPartitioner",
    "FallbackKernel",
    "GraphPass",
    "LinkedObjects",
    "LoweringError",
    "MpsPartitioner",
    "PayloadError",
    "PluginConflictError",
    "PluginError",
    "PluginManager",
    "Program",
    "ProgramError",
    "ProgressEvent",
    "ReadableNames",
    "RuntimeLoadError",
    "SharedLibrary",
    "Target",
    "UnsupportedError",
    "__version__",
    "get_manager",
    "hookimpl",
    "scalar_value",
    "show_progress",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version()
    elif name in _MODULE_OF:
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:
        return "0+unknown"


if os.environ.get("AOTI_PLUGINS_LOG"):
    from aoti_plugins.log_level import follow_environment

    follow_environment()
