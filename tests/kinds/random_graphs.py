"""A hypothesis strategy for small models: random ops on inputs with random shapes and strides.

A graph is drawn as it runs: every step is applied to real tensors, so that the next one knows the
shapes. Values stay small, and nothing is drawn whose result jumps where rounding differs (no
comparison of computed floats), so that eager PyTorch is a fair reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.bool)
MOST_NUMEL = 4096


@dataclass(frozen=True)
class Input:
    """Shape, dtype and order of the dimensions in memory, the outermost first."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...]

    def text(self, seed: int) -> str:
        """An expression for random values: floats about 1, integers from -9 to 9."""
        stored = tuple(self.shape[dim] for dim in self.order)
        back = [self.order.index(dim) for dim in range(len(self.shape))]
        given = _generator(seed)
        if self.dtype.is_floating_point:
            values = f"torch.randn({stored}, {given}, dtype=torch.float64)"
        else:
            values = f"torch.randint(-9, 10, {stored}, {given})"
        typed = f"({values} > 0)" if self.dtype == torch.bool else f"{values}.to({self.dtype})"
        return f"{typed}.permute({back})"

    def make(self, seed: int) -> Tensor:
        """The values of that expression."""
        made = eval(self.text(seed), {"torch": torch})
        assert isinstance(made, Tensor)
        return made


@dataclass
class Graph:
    """Inputs, and steps as expressions: ``v0``, ``v1``, … are all values before a step."""

    inputs: list[Input]
    steps: list[str] = field(default_factory=list)

    def make_inputs(self, call: int) -> list[Tensor]:
        """The inputs of one call."""
        return [one.make(_seed(call, index)) for index, one in enumerate(self.inputs)]

    def text(self, call: int) -> str:
        """The statements that compute all values of one call."""
        made = [one.text(_seed(call, index)) for index, one in enumerate(self.inputs)]
        lines = [f"v{index} = {text}" for index, text in enumerate([*made, *self.steps])]
        return "\n".join([f"{name} = {text}" for name, text in self.weights().items()] + lines)

    def weights(self) -> dict[str, str]:
        """The constants that the steps name, as expressions."""
        return {
            name: f"torch.randn({rows}, {columns}, {_generator(int(rows))}) / {columns}"
            for name, rows, columns in _WEIGHT.findall(" ".join(self.steps))
        }

    def __repr__(self) -> str:
        return f"\n{self.text(0)}\n"


_WEIGHT = re.compile(r"\b(w(\d+)_(\d+))\b")


def _generator(seed: int) -> str:
    return f"generator=torch.Generator().manual_seed({seed})"


def _seed(call: int, index: int) -> int:
    return 100 * call + index


class Model(nn.Module):
    """A graph as a module; returns the last two values."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        self._weights = evaluated(graph.weights())

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Apply all steps."""
        values = list(inputs)
        for step in self._graph.steps:
            values.append(apply(step, values, self._weights))
        return tuple(values[len(inputs) :][-2:])


def evaluated(texts: Mapping[str, str]) -> dict[str, Tensor]:
    """The values of expressions."""
    return {name: eval(text, {"torch": torch}) for name, text in texts.items()}


def apply(step: str, values: Sequence[Tensor], weights: Mapping[str, Tensor]) -> Tensor:
    """The value of a step."""
    named = {f"v{index}": value for index, value in enumerate(values)}
    found = eval(step, {"torch": torch, **weights, **named})
    assert isinstance(found, Tensor)
    return found


_UNARY = {
    "tanh": "{x}.tanh()",
    "sigmoid": "{x}.sigmoid()",
    "sin": "{x}.sin()",
    "relu": "{x}.relu()",
    "gelu": "torch.nn.functional.gelu({x})",
    "sqrt_abs": "{x}.abs().sqrt()",
    "neg": "-{x}",
    "halve": "{x} * 0.5",
}
_WHOLE_UNARY = {
    "neg": "-{x}",
    "abs": "{x}.abs()",
    "clamp": "{x}.clamp(-5, 7)",
    "modulo": "{x} % 7",
}
_BINARY = ["{x} + {y}", "{x} - {y}", "({x} * {y}).clamp(-100, 100)", "torch.maximum({x}, {y})"]
_REDUCTIONS = ["sum({d}, {k})", "mean({d}, {k})", "amax({d}, {k})", "amin({d}, {k})"]
_SOFTMAXES = ["softmax({d})", "log_softmax({d})"]


@st.composite
def graphs(draw: st.DrawFn, most_steps: int = 6) -> Graph:
    """Graphs of one to three inputs and up to ``most_steps`` steps."""
    graph = Graph(draw(st.lists(_inputs(), min_size=1, max_size=3)))
    values = graph.make_inputs(0)
    for _ in range(draw(st.integers(1, most_steps))):
        step = draw(_steps(values))
        result = apply(step, values, evaluated(Graph([], [step]).weights()))
        if result.numel() > MOST_NUMEL:
            break
        graph.steps.append(step)
        values.append(result)
    if not graph.steps:
        graph.steps.append("v0.clone()")
    return graph


@st.composite
def _inputs(draw: st.DrawFn) -> Input:
    sizes = st.one_of(st.integers(1, 5), st.sampled_from([1, 8, 17, 33]))
    shape = tuple(draw(st.lists(sizes, min_size=1, max_size=4)))
    while torch.Size(shape).numel() > MOST_NUMEL:
        shape = shape[:-1]
    order = tuple(draw(st.permutations(range(len(shape)))))
    return Input(shape, draw(st.sampled_from(DTYPES)), order)


@st.composite
def _steps(draw: st.DrawFn, values: Sequence[Tensor]) -> str:
    at = draw(st.integers(0, len(values) - 1))
    kinds = [_pointwise, _pair, _views, _indexing]
    if values[at].dim() > 0 and values[at].dtype != torch.bool:
        kinds.append(_reductions)
    if values[at].dim() >= 2 and values[at].dtype in FLOATS:
        kinds += [_products, _products]
    return draw(draw(st.sampled_from(kinds))(values, at))


@st.composite
def _pointwise(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> str:
    dtype = values[at].dtype
    if dtype == torch.bool:
        return f"~v{at}"
    table = _UNARY if dtype.is_floating_point else _WHOLE_UNARY
    # ExecuTorch makes tensors of numbers: where nothing has dimensions, the wider dtype wins.
    numbers = () if values[at].dim() else ("clamp", "halve", "modulo")
    return table[draw(st.sampled_from(sorted(set(table) - set(numbers))))].format(x=f"v{at}")


@st.composite
def _pair(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> str:
    """Two values of one dtype that broadcast, or a choice by a mask."""
    x = values[at]
    fitting = [
        i
        for i, y in enumerate(values)
        if y.dtype in (x.dtype, torch.bool) and _broadcasts(x.shape, y.shape)
    ]
    other = draw(st.sampled_from(fitting))
    if values[other].dtype == torch.bool:
        fill = x.dtype != torch.bool and draw(st.booleans())
        return f"torch.where(v{other}, v{at}, 2)" if fill else f"v{other} | (v{at} == v{at})"
    return draw(st.sampled_from(_BINARY)).format(x=f"v{at}", y=f"v{other}")


@st.composite
def _reductions(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> str:
    x = values[at]
    floats = x.is_floating_point()
    ways = [way for way in _REDUCTIONS if floats or not way.startswith("mean")]
    way = draw(st.sampled_from([*ways, *(_SOFTMAXES if floats else [])]))
    dim = draw(st.integers(-x.dim(), x.dim() - 1))
    return f"v{at}." + way.format(d=dim, k=draw(st.booleans()))


@st.composite
def _views(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> str:
    x = values[at]
    dim = draw(st.integers(0, max(x.dim() - 1, 0)))
    size = x.size(dim) if x.dim() else 1
    start = draw(st.integers(0, size - 1))
    ways = ["{x}.unsqueeze({d})", "{x}.reshape(-1)"]
    if x.dim() > 0:
        places = f"{':, ' * dim}{start}::{draw(st.integers(1, 2))}"
        ways += [f"{{x}}[{places}]", f"{{x}}.permute({draw(st.permutations(range(x.dim())))})"]
        ways += ["{x}.flip({d})", f"{{x}}.unsqueeze(0).expand(2, *{tuple(x.shape)})"]
        ways += ["torch.cat([{x}, {x}], {d})", f"{{x}}.select({{d}}, {start})"]
    return draw(st.sampled_from(ways)).format(x=f"v{at}", d=dim)


@st.composite
def _indexing(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> str:
    x = values[at]
    if x.dim() == 0:
        return f"v{at}.clone()"
    dim = draw(st.integers(0, x.dim() - 1))
    chosen = draw(st.lists(st.integers(0, x.size(dim) - 1), min_size=1, max_size=5))
    index = f"torch.tensor({chosen})"
    sizes = [len(chosen) if one == dim else size for one, size in enumerate(x.shape)]
    shape = [-1 if one == dim else 1 for one in range(x.dim())]
    ways = [f"{{x}}.index_select({dim}, {index})", f"{{x}}[{':, ' * dim}{index}]"]
    ways.append(f"{{x}}.gather({dim}, {index}.view({shape}).expand({sizes}))")
    if x.dtype != torch.bool:
        added = f"{{x}}.index_select({dim}, {index})"
        ways.append(f"{{x}}.index_add({dim}, {index}, {added})")
    return draw(st.sampled_from(ways)).format(x=f"v{at}")


@st.composite
def _products(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> str:
    x = values[at]
    columns = draw(st.sampled_from([1, 3, 16]))
    ways = [f"{{x}} @ {{x}}.mT / {x.size(-1)}", f"{{x}}.mT @ {{x}} / {x.size(-2)}"]
    ways.append(f"torch.nn.functional.linear({{x}}, w{columns}_{x.size(-1)}.to({x.dtype}))")
    return draw(st.sampled_from(ways)).format(x=f"v{at}")


def _broadcasts(one: Sequence[int], other: Sequence[int]) -> bool:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def tolerance(graph: Graph, values: Sequence[Any]) -> float:
    """How far a result may be off, relative to the largest element: the coarsest dtype decides."""
    dtypes = {one.dtype for one in graph.inputs} | {value.dtype for value in values}
    if torch.bfloat16 in dtypes:
        return 5e-2
    if torch.float16 in dtypes:
        return 1e-2
    return 1e-4 if torch.float32 in dtypes else 1e-9
