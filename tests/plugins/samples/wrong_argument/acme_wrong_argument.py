"""A plugin written for another signature, which also gives an argument a default."""

from __future__ import annotations

from aoti_plugins import hookimpl

AOTI_PLUGINS_API = 1


@hookimpl
def aoti_blob_name(kind, digest):
    return f"{digest}_{kind}"


@hookimpl
def aoti_targets(device="cpu"):
    return []
