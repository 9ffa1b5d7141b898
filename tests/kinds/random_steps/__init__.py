"""The statements that random modules are made of. Each step writes one or a few lines."""

from __future__ import annotations

from collections.abc import Callable

from random_modules import Writer

from random_steps.arithmetic import (
    binary,
    cast,
    choice,
    comparison,
    division,
    logic,
    rounded,
    ternary,
    unary,
    whole,
)
from random_steps.indices import gathered, gathered_in_order, indexed, put, scattered, searched
from random_steps.layers import (
    attention,
    attention_by_hand,
    attention_layer,
    bag,
    batch_norm,
    convolution1d,
    convolution2d,
    embedding,
    group_norm,
    interpolate,
    linear,
    norm,
    perceptron,
    pooling,
    recurrent,
)
from random_steps.operands import ordered, random_input, shape
from random_steps.shapes import image, joined, padded, parts, sliced, triangle
from random_steps.state import (
    assignment,
    constant,
    gated_experts,
    in_place,
    mesh,
    rotated,
    scalar_of,
    state,
)
from random_steps.sums_and_products import along, loss, product, reduction, whole_reduction

__all__ = ["STEPS", "random_input", "state"]

Step = Callable[[Writer], object]

_LAYERS: tuple[Step, ...] = (
    *(linear, perceptron, convolution1d, convolution2d, norm, batch_norm, group_norm, embedding),
    *(bag, attention_layer, attention, attention_by_hand, recurrent, pooling, interpolate),
)

_NUMBERS: tuple[Step, ...] = (
    *(unary, unary, rounded, binary, binary, division, ternary, whole, comparison, logic, choice),
    *(choice, cast, cast, product, product, reduction, reduction, along, ordered, whole_reduction),
    *(loss, constant, scalar_of),
)

_PLACES: tuple[Step, ...] = (
    *(shape, shape, shape, joined, parts, sliced, sliced, triangle, padded, image, indexed),
    *(indexed, gathered, gathered_in_order, scattered, scattered, put, searched, assignment),
    *(assignment, in_place, in_place, mesh, rotated, gated_experts),
)

STEPS: tuple[Step, ...] = (*_LAYERS, *_NUMBERS, *_PLACES)
