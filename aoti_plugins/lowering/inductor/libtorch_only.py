"""Keep Inductor away from what only libtorch can run.

Two global choices of PyTorch make Inductor call kernels that no runtime without libtorch has:
oneDNN (packed linears, fused convolutions, whole RNN layers) and the fused attention kernels. Both
are switches of PyTorch, no patches; they are set for the time of one lowering.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._C._get_mkldnn_enabled()",
    "torch._C._set_mkldnn_enabled",
    why="Inductor would call oneDNN's kernels, which only libtorch has.",
    until="never: a switch",
)
def no_onednn() -> Iterator[None]:
    """Trace and generate as if PyTorch had been built without oneDNN."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@patch(
    "torch.backends.cuda.flash_sdp_enabled()",
    "torch.nn.attention.sdpa_kernel",
    why="Inductor would call fused attention kernels, which only libtorch has.",
    until="never: a switch",
)
def math_attention() -> Iterator[None]:
    """Decompose scaled dot-product attention into matrix products and softmax."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        yield
