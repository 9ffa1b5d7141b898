"""A plugin that works: one graph pass, and names for weight blobs."""

from __future__ import annotations

from aoti_plugins import GraphPass, hookimpl

AOTI_PLUGINS_API = 1


@hookimpl
def aoti_graph_passes(device, compile_specs):
    if device != "cpu":
        return
    yield GraphPass("acme.count_nodes", count_nodes)


@hookimpl
def aoti_blob_name(kind, sha256):
    return f"acme/{sha256}" if kind == "weights" else None


def count_nodes(program):
    program.graph_module.meta["acme.count_nodes"] = len(program.graph.nodes)
