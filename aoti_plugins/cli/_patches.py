"""The list of ``aoti-plugins doctor --patches``: what lowering changes in PyTorch and Triton."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import aoti_plugins

if TYPE_CHECKING:
    from aoti_plugins.lowering.inductor.patching import Patch


def patch_states() -> list[tuple[Patch[Any, Any], str]]:
    """All patches, each with ``"fits"``, ``"not needed"``, or what is missing.

    Imports PyTorch's compiler, which takes seconds.
    """
    return [(one, _state(one)) for one in all_patches()]


def all_patches() -> tuple[Patch[Any, Any], ...]:
    """All patches that this package has, by name."""
    from aoti_plugins.lowering.inductor.patching import known_patches

    for module in pkgutil.walk_packages(aoti_plugins.__path__, "aoti_plugins."):
        # A class that Triton names, and no patch: it cannot be imported without Triton.
        if ".inductor." in module.name and not module.name.endswith(".checked_cache"):
            importlib.import_module(module.name)
    return known_patches()


def _state(patch: Patch[Any, Any]) -> str:
    if not patch.is_needed:
        return "not needed"
    try:
        patch.check()
    except (AttributeError, ImportError) as error:
        return str(error)
    return "fits"
