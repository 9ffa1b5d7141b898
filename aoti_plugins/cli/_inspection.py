"""Looks at the installed plugins as a lowering does, without ending at the first broken one."""

from __future__ import annotations

import sys
from pathlib import Path

from elftools.common.exceptions import ELFError

from aoti_plugins.errors import PluginError
from aoti_plugins.lowering.artifacts.elf import read_soname
from aoti_plugins.plugin_system.devices import installed_device
from aoti_plugins.plugin_system.manager import PluginManager, RegisteredKernel
from aoti_plugins.runtime._kernel_libraries import (
    ENTRY_POINT_GROUP,
    installed_libraries,
    wrong_entries,
)
from aoti_plugins.types import SharedLibrary, Target


def inspect_plugins() -> PluginManager:
    """Load the installed plugins, with the checks of their options and targets that lowering makes.

    Plugins that fail in one are taken out; ``plugins()`` of the result says why.
    """
    from aoti_plugins.lowering.inductor.options import check_options

    return PluginManager.inspect_installed(check_options=check_options, check_target=_check_target)


def _check_target(target: Target) -> None:
    installed_device(target.device).check_target(target)


def library_problems(manager: PluginManager) -> list[str]:
    """Say which kernel libraries of installed packages programs would not find, and why."""
    problems = dict.fromkeys(wrong_entries())
    for registered in _shared_libraries(manager):
        problem = _problem(registered)
        if problem is not None:
            who = f"the library of fallback kernel {registered.shim.name!r} of {registered.origin}"
            problems[f"{who}: {problem}"] = None
    return list(problems)


def _shared_libraries(manager: PluginManager) -> list[RegisteredKernel]:
    found: dict[SharedLibrary, RegisteredKernel] = {}
    for device in manager.devices():
        try:
            kernels = manager.fallback_kernels(device)
        except PluginError:
            continue  # a conflict, which is listed as one
        for registered in kernels.values():
            if isinstance(registered.kernel.provider, SharedLibrary):
                found.setdefault(registered.kernel.provider, registered)
    return list(found.values())


def _problem(registered: RegisteredKernel) -> str | None:
    library = registered.kernel.provider
    assert isinstance(library, SharedLibrary)
    path = Path(library.path)
    try:
        soname = read_soname(path.read_bytes())
    except (OSError, ELFError) as error:
        return f"{library.path!r} cannot be read: {error}. Install {registered.origin} again."
    if soname != library.soname:
        return (
            f"SharedLibrary.soname is {library.soname!r}, and {library.path!r} has "
            f"{soname or 'none'}. Programs look for the latter: correct the hook."
        )
    if library.soname not in installed_libraries() and _is_in_a_package(path):
        return (
            f"{library.soname!r} is in a package, and no entry point of the group "
            f"{ENTRY_POINT_GROUP!r} finds it, so that programs in Python would not: add "
            f'"{library.soname}" = "the folder\'s dotted name".'
        )
    return None


def _is_in_a_package(path: Path) -> bool:
    return any(path.is_relative_to(root) for root in sys.path if root)
