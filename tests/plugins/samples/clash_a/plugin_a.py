"""One of two plugins that offer the same things."""

from __future__ import annotations

from aoti_plugins import CShim, FallbackKernel, GraphPass, Target, hookimpl

AOTI_PLUGINS_API = 1

SORT = CShim(
    "aoti_torch_cuda_sort_stable",
    "AOTITorchError aoti_torch_cuda_sort_stable(AtenTensorHandle self, int32_t* stable, "
    "int64_t dim, int32_t descending, AtenTensorHandle* ret0, AtenTensorHandle* ret1)",
)


@hookimpl
def aoti_fallback_kernels(device):
    return [FallbackKernel("aten::sort.stable", (SORT,))] if device == "cuda" else []


@hookimpl
def aoti_graph_passes(device):
    return [GraphPass("fuse_attention", lambda program: None)] if device == "cuda" else []


@hookimpl
def aoti_inductor_options(device):
    return {"cpp.threads": 4, "max_autotune": True} if device == "cpu" else {}


@hookimpl
def aoti_decompositions(device):
    if device != "cpu":
        return {}
    import torch

    return {torch.ops.aten.square.default: lambda x: x * x}


@hookimpl
def aoti_targets(device):
    return [Target("orin", "cuda", "aarch64")] if device == "cuda" else []
