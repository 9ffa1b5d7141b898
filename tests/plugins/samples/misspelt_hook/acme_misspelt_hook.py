"""A plugin with a typing mistake in a hook's name."""

from __future__ import annotations

from aoti_plugins import hookimpl

AOTI_PLUGINS_API = 1


@hookimpl
def aoti_fallback_kernel(device):
    return []
