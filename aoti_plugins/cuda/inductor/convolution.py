"""Convolutions: the layout of their results, and which kernels are weighed for them.

For a tensor on a GPU, PyTorch asks which of its libraries would convolve, and takes that library's
layout. A build of PyTorch without CUDA has none and answers "row-major" for what our runtime gives
channels last: the code would then read the result wrongly. ``convolution_layout`` predicts the
layout by the rule of the runtime's kernel. Patched:
``torch._C._conv_determine_backend_memory_format``.

In float32, Inductor's templates for convolutions round to TF32 only where
``torch.backends.cudnn.fp32_precision`` says so, the library already where PyTorch's default,
``torch.backends.cudnn.allow_tf32``, does. Without tensor cores a template takes ten times as long
as the library with them, and a minute to compile. ``convolution_choices`` leaves such templates
out. Patched: ``AlgorithmSelectorCache.__call__``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._C._conv_determine_backend_memory_format",
    why="A build of PyTorch without CUDA predicts another layout than our runtime's.",
    until="aot_compile takes a target",
)
def convolution_layout(
    original: Any, input: torch.Tensor, weight: torch.Tensor, backend: Any
) -> torch.memory_format:
    """Results are channels last where input or weight are, except in float64."""
    del original, backend
    if input.dtype == torch.float64:
        return torch.contiguous_format
    found = map(suggest_memory_format, (input, weight))
    return next((f for f in found if f != torch.contiguous_format), torch.contiguous_format)


@replacement(
    "torch._inductor.select_algorithm.AlgorithmSelectorCache.__call__("
    "self, name, choices, input_nodes, layout)",
    "torch._inductor.select_algorithm.TritonTemplateCaller",
    why="Templates without tensor cores are weighed against a library that uses them.",
    until="templates follow allow_tf32",
)
def convolution_choices(
    original: Any,
    self: Any,
    name: str,
    choices: list[Any],
    input_nodes: Any,
    *rest: Any,
    **more: Any,
) -> Any:
    """Weigh no template without tensor cores against a library that may use them."""
    from torch._inductor.select_algorithm import TritonTemplateCaller

    cudnn = torch.backends.cudnn
    rounds = cudnn.allow_tf32 and cudnn.fp32_precision != "tf32"
    if name == "convolution" and rounds and input_nodes[0].get_dtype() == torch.float32:
        kept = [one for one in choices if not isinstance(one, TritonTemplateCaller)]
        choices = kept or choices
    return original(self, name, choices, input_nodes, *rest, **more)
