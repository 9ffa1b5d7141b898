"""A hypothesis strategy for small models: random ops on inputs with random shapes and strides.

A graph is drawn as it runs: every step is applied to real tensors, so that the next one knows the
shapes. Values stay small, and nothing is drawn whose result jumps where rounding differs (no
comparison of computed floats), so that eager PyTorch is a fair reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.bool)
MOST_NUMEL = 4096

Step = Callable[[Sequence[Tensor]], Tensor]


@dataclass(frozen=True)
class Input:
    """Shape, dtype and order of the dimensions in memory, the outermost first."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...]

    def make(self, generator: torch.Generator) -> Tensor:
        """Random values: floats about 1, integers from -9 to 9."""
        stored = [self.shape[dim] for dim in self.order]
        if self.dtype.is_floating_point:
            values = torch.randn(stored, generator=generator, dtype=torch.float64)
        else:
            values = torch.randint(-9, 10, stored, generator=generator)
        back = [self.order.index(dim) for dim in range(len(self.shape))]
        typed = values > 0 if self.dtype == torch.bool else values.to(self.dtype)
        return typed.permute(back)


@dataclass
class Graph:
    """Inputs, and steps with their names; every step sees all values before it."""

    inputs: list[Input]
    steps: list[Step] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Graph({self.inputs}, {self.names})"


class Model(nn.Module):
    """A graph as a module; returns what no step has used."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Apply all steps."""
        values = list(inputs)
        for step in self._graph.steps:
            values.append(step(values))
        return tuple(values[len(inputs) :][-2:])


_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "sqrt_abs": lambda x: x.abs().sqrt(),
    "neg": torch.neg,
    "halve": lambda x: x * 0.5,
}
_WHOLE_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": torch.neg,
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-5, 7),
    "modulo": lambda x: x % 7,
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": lambda x, y: (x * y).clamp(-100, 100),
    "maximum": torch.maximum,
}
_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": lambda x, dim, keep: x.sum(dim, keep),
    "mean": lambda x, dim, keep: x.mean(dim, keep),
    "amax": lambda x, dim, keep: x.amax(dim, keep),
    "amin": lambda x, dim, keep: x.amin(dim, keep),
    "softmax": lambda x, dim, keep: x.softmax(dim) if keep else x.log_softmax(dim),
}


@st.composite
def graphs(draw: st.DrawFn, most_steps: int = 6) -> Graph:
    """Graphs of one to three inputs and up to ``most_steps`` steps."""
    graph = Graph(draw(st.lists(_inputs(), min_size=1, max_size=3)))
    generator = torch.Generator().manual_seed(0)
    values = [one.make(generator) for one in graph.inputs]
    for _ in range(draw(st.integers(1, most_steps))):
        name, step = draw(_steps(values))
        result = step(values)
        if result.numel() > MOST_NUMEL:
            break
        graph.names.append(name)
        graph.steps.append(step)
        values.append(result)
    if not graph.steps:
        graph.names.append("clone(0)")
        graph.steps.append(lambda values: values[0].clone())
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
def _steps(draw: st.DrawFn, values: Sequence[Tensor]) -> tuple[str, Step]:
    at = draw(st.integers(0, len(values) - 1))
    kinds = [_pointwise, _pair, _views, _indexing]
    if values[at].dim() > 0 and values[at].dtype != torch.bool:
        kinds.append(_reductions)
    if values[at].dim() >= 2 and values[at].dtype in FLOATS:
        kinds += [_products, _products]
    name, step = draw(draw(st.sampled_from(kinds))(values, at))
    return f"{name}({at})", step


@st.composite
def _pointwise(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> tuple[str, Step]:
    dtype = values[at].dtype
    if dtype == torch.bool:
        return "not", lambda values: ~values[at]
    table = _UNARY if dtype.is_floating_point else _WHOLE_UNARY
    # ExecuTorch makes tensors of numbers: where nothing has dimensions, the wider dtype wins.
    numbers = () if values[at].dim() else ("clamp", "halve", "modulo")
    name = draw(st.sampled_from(sorted(set(table) - set(numbers))))
    return name, lambda values: table[name](values[at])


@st.composite
def _pair(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> tuple[str, Step]:
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
        if fill:
            return f"where {other}", lambda values: torch.where(values[other], values[at], 2)
        return f"or {other}", lambda values: values[other] | (values[at] == values[at])
    name = draw(st.sampled_from(sorted(_BINARY)))
    return f"{name} {other}", lambda values: _BINARY[name](values[at], values[other])


@st.composite
def _reductions(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> tuple[str, Step]:
    x = values[at]
    names = sorted(_REDUCTIONS) if x.is_floating_point() else ["amax", "amin", "sum"]
    name = draw(st.sampled_from(names))
    dim = draw(st.integers(-x.dim(), x.dim() - 1))
    keep = draw(st.booleans())
    return f"{name} {dim} {keep}", lambda values: _REDUCTIONS[name](values[at], dim, keep)


@st.composite
def _views(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> tuple[str, Step]:
    x = values[at]
    names = ["unsqueeze", "flatten"]
    if x.dim() > 0:
        names += ["permute", "slice", "flip", "expand", "cat", "select"]
    name = draw(st.sampled_from(names))
    dim = draw(st.integers(0, max(x.dim() - 1, 0)))
    size = x.size(dim) if x.dim() else 1
    start = draw(st.integers(0, size - 1))
    step = draw(st.integers(1, 2))
    order = draw(st.permutations(range(x.dim())))
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "unsqueeze": lambda x: x.unsqueeze(dim),
        "flatten": lambda x: x.reshape(-1),
        "permute": lambda x: x.permute(order),
        "slice": lambda x: x[(slice(None),) * dim + (slice(start, None, step),)],
        "flip": lambda x: x.flip(dim),
        "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape),
        "cat": lambda x: torch.cat([x, x], dim),
        "select": lambda x: x.select(dim, start),
    }
    return f"{name} {dim} {start} {step} {order}", lambda values: views[name](values[at])


@st.composite
def _indexing(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> tuple[str, Step]:
    x = values[at]
    if x.dim() == 0:
        return "clone", lambda values: values[at].clone()
    dim = draw(st.integers(0, x.dim() - 1))
    chosen = draw(st.lists(st.integers(0, x.size(dim) - 1), min_size=1, max_size=5))
    indices = torch.tensor(chosen)
    name = draw(st.sampled_from(["index_select", "gather", "index_add", "advanced"]))
    if name == "index_add" and x.dtype == torch.bool:
        name = "index_select"
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "index_select": lambda x: x.index_select(dim, indices),
        "gather": lambda x: x.gather(dim, _along(indices, x, dim)),
        "index_add": lambda x: x.index_add(dim, indices, x.index_select(dim, indices)),
        "advanced": lambda x: x[(slice(None),) * dim + (indices,)],
    }
    return f"{name} {dim} {chosen}", lambda values: ways[name](values[at])


@st.composite
def _products(draw: st.DrawFn, values: Sequence[Tensor], at: int) -> tuple[str, Step]:
    name = draw(st.sampled_from(["gram", "outer", "linear"]))
    columns = draw(st.sampled_from([1, 3, 16]))
    depth = values[at].size(-1)
    weight = torch.randn(columns, depth, generator=torch.Generator().manual_seed(columns))
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "gram": lambda x: x @ x.mT / depth,
        "outer": lambda x: x.mT @ x / x.size(-2),
        "linear": lambda x: nn.functional.linear(x, weight.to(x.dtype) / depth),
    }
    return f"{name} {columns}", lambda values: ways[name](values[at])


def _along(indices: Tensor, x: Tensor, dim: int) -> Tensor:
    shape = [1] * x.dim()
    shape[dim] = -1
    sizes = list(x.shape)
    sizes[dim] = len(indices)
    return indices.view(shape).expand(sizes)


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
