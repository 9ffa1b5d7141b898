"""What aoti_plugins has to know: how to compute the op where its Triton kernel cannot run."""

from __future__ import annotations

from aoti_plugins import hookimpl

AOTI_PLUGINS_API = 1


@hookimpl
def aoti_decompositions(device):
    """On NVIDIA GPUs the kernel, elsewhere ops that Inductor knows."""
    if device == "cuda":
        return {}
    import torch

    from acme_triton.op import plain_gated

    return {torch.ops.acme_triton.gated.default: plain_gated}
