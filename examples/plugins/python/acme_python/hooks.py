"""What this package changes in everybody's lowering."""

from __future__ import annotations

from aoti_plugins import GraphPass, hookimpl

AOTI_PLUGINS_API = 1


@hookimpl
def aoti_graph_passes():
    """One pass, on every device."""
    from acme_python.passes import tanh_gelu

    return [GraphPass("acme_python.tanh_gelu", tanh_gelu, after=("aoti_plugins.edge_to_aten",))]


@hookimpl
def aoti_decompositions():
    """The op in terms of others, on every device."""
    import torch

    from acme_python.op import plain_snake

    return {torch.ops.acme_python.snake.default: plain_snake}


@hookimpl
def aoti_blob_name(kind, device, method, sha256):
    """Names that say what a blob is; the digest keeps them apart."""
    return f"acme_python/{method}/{device}/{kind}/{sha256[:16]}"
