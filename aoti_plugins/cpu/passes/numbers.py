"""Numbers of 8 bits in a graph of ATen ops, as PT2E writes them."""

from __future__ import annotations

import torch
from torch.fx import Node

from aoti_plugins.lowering.small_weights.sources import arguments_of, name_of

QUANTIZE = "quantized_decomposed::quantize_per_tensor"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor"
DEQUANTIZE_CHANNELS = "quantized_decomposed::dequantize_per_channel"
_LEAST, _MOST = -128, 127


def is_between(node: object, name: str) -> bool:
    """Whether a node goes between floats and all numbers of int8, with a scale that is known.

    Args:
        node: of a graph.
        name: ``QUANTIZE`` or ``DEQUANTIZE``.
    """
    if not isinstance(node, Node) or name_of(node) != name:
        return False
    given = arguments_of(node)
    wanted = {"quant_min": _LEAST, "quant_max": _MOST, "dtype": torch.int8}
    numbers = (given["scale"], given["zero_point"])
    return all(given[name] == value for name, value in wanted.items()) and not any(
        isinstance(one, Node) for one in numbers
    )


def step_of(node: Node) -> tuple[float, int]:
    """Scale and zero of a node between floats and numbers."""
    given = arguments_of(node)
    return float(given["scale"]), int(given["zero_point"])
