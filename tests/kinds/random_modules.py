"""Random modules as users write them: one number gives the source text of one ``nn.Module``.

A module is written statement by statement. Each statement runs at once in eager PyTorch, so that
the next one knows dtypes and sizes; one that eager refuses is dropped. The statements are in
``random_steps/``. What rounding would decide (which of two near numbers is larger, what
lies near an integer) is refused while writing, as a compiler may round otherwise.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional
from torch import nn

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")

# ExecuTorch makes tensors of numbers: x * 2.0 has another dtype than in eager PyTorch where x has
# no dims and a narrower dtype than a number.
WITHOUT_DIMS = ("float32", "float64", "int64", "bool")

LARGEST_NUMEL = 3000
LARGEST_FLOAT = 1e3
LARGEST_INTEGER = 1e6

_UNFOLDED = re.compile(r"(?P<name>\w+) = .*\.unfold\(-?\d+, (?P<size>\d+), (?P<step>\d+)\)")

_GIVEN = {"torch": torch, "nn": nn, "F": torch.nn.functional}


class RefusedError(Exception):
    """A statement that does not go into the module."""


@dataclass(frozen=True)
class RandomModule:
    """One random program: the source of a class ``Module``, and its inputs as expressions."""

    seed: int
    source: str
    inputs: tuple[str, ...]

    def make(self) -> nn.Module:
        """The module, with the same weights every time."""
        torch.manual_seed(self.seed)
        made = _class_of(self.source)().eval()
        assert isinstance(made, nn.Module)
        return made

    def make_in_float64(self) -> nn.Module:
        """The module with the same weights, all of it in float64."""
        made = self.make().double()
        exact = re.sub(r"torch\.(float32|float16|bfloat16)\b", "torch.float64", self.source)
        exact = exact.replace(".float()", ".double()")
        made.__class__ = _class_of(exact)
        return made

    def example(self) -> tuple[Any, ...]:
        """The inputs, the same every time."""
        torch.manual_seed(self.seed + 1)
        return tuple(eval(text, dict(_GIVEN)) for text in self.inputs)

    @property
    def rounding(self) -> float:
        """The relative error of one operation in the coarsest dtype that the program has."""
        text = "\n".join((self.source, *self.inputs))
        for dtype in (torch.bfloat16, torch.float16):
            if str(dtype) in text:
                return torch.finfo(dtype).eps
        return torch.finfo(torch.float32).eps

    def __str__(self) -> str:
        """Everything that makes it again, as text."""
        given = "".join(f"    {text},\n" for text in self.inputs)
        start = f"# random module {self.seed}\ntorch.manual_seed({self.seed})\n"
        return (
            f"{self.source}\n{start}module = Module().eval()\n"
            f"torch.manual_seed({self.seed + 1})\ninputs = (\n{given})\n"
        )


def _class_of(source: str) -> type:
    space = dict(_GIVEN)
    exec(compile(source, "<random module>", "exec"), space)
    found = space["Module"]
    assert isinstance(found, type)
    return found


class Writer:
    """A module while it is written: its lines so far, and what its names stand for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.module = nn.Module()
        self.values: dict[str, Any] = {"self": self.module}
        self.inputs: list[str] = []
        self.made: list[str] = []
        self.lines: list[str] = []
        self.used: set[str] = set()
        self.broken = False
        self._count = 0
        torch.manual_seed(seed)
        self.weights = torch.get_rng_state()

    # What statements are made of.

    def one(self, *choices: Any) -> Any:
        """One of some values."""
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        """True in a share of the calls."""
        return self.random.random() < share

    def number(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both possible."""
        return self.random.randint(low, high)

    def tensor(self, accept: Callable[[torch.Tensor], bool] = lambda value: True) -> str:
        """The name of a tensor, rather a late one.

        Raises:
            RefusedError: none is accepted.
        """
        names = [name for name in self.tensors() if accept(self.values[name])]
        if not names:
            raise RefusedError("no tensor fits")
        late = names[-3:]
        name = self.random.choice(late if self.chance(0.7) else names)
        self.used.add(name)
        return name

    def tensors(self) -> list[str]:
        """The names of all tensors, in the order in which they were made."""
        return [name for name, value in self.values.items() if isinstance(value, torch.Tensor)]

    def floats(self, low: int = 0, high: int = 9) -> str:
        """The name of a tensor of a floating dtype with so many dims."""
        return self.tensor(lambda x: x.is_floating_point() and low <= x.dim() <= high)

    def integers(self, low: int = 0, high: int = 9) -> str:
        """The name of a tensor of integers with so many dims."""
        return self.tensor(lambda x: is_integer(x) and low <= x.dim() <= high)

    def truths(self, low: int = 0, high: int = 9) -> str:
        """The name of a tensor of truth values with so many dims."""
        return self.tensor(lambda x: x.dtype == torch.bool and low <= x.dim() <= high)

    def dims(self, low: int = 1, high: int = 9) -> str:
        """The name of any tensor with so many dims."""
        return self.tensor(lambda x: low <= x.dim() <= high)

    def dim(self, name: str) -> int:
        """A dim of a tensor, negative or not."""
        count = self.values[name].dim()
        return self.number(-count, count - 1) if count else self.one(0, -1)

    def own(self, low: int = 1) -> str:
        """The name of a tensor that may be written to.

        It is no part of an input or of the state, and has no place in memory twice, as windows of
        ``unfold`` have: eager may write to them, ``torch.export`` refuses.
        """
        kept = [self.values[f"x{index}"] for index in range(len(self.inputs))]
        kept += [*self.module.buffers(), *self.module.parameters(), *self._overlapping_windows()]
        places = {
            value.untyped_storage().data_ptr() for value in kept if isinstance(value, torch.Tensor)
        }
        return self.tensor(
            lambda x: (
                x.dim() >= low and x.untyped_storage().data_ptr() not in places and not _overlaps(x)
            )
        )

    def _overlapping_windows(self) -> Iterator[Any]:
        """What ``unfold`` gave that may overlap: ``torch.export`` looks at size and step alone."""
        for line in self.lines:
            found = _UNFOLDED.fullmatch(line)
            if found and int(found["size"]) > int(found["step"]):
                yield self.values[found["name"]]

    # Statements.

    def layer(self, text: str) -> str:
        """Make a submodule; its name as an expression."""
        return self._make(f"self.layer{self._next()} = {text}")

    def parameter(self, text: str) -> str:
        """Make a parameter; its name as an expression."""
        return self._make(f"self.weight{self._next()} = nn.Parameter({text}, requires_grad=False)")

    def buffer(self, text: str) -> str:
        """Make a buffer; its name as an expression."""
        name = f"state{self._next()}"
        self._make(f'self.register_buffer("{name}", {text})')
        return f"self.{name}"

    def let(self, text: str) -> str:
        """Name the value of an expression, or each of the values that it has.

        Raises:
            RefusedError: eager refuses it, or the value is none that a test can decide.
        """
        found = self.evaluate(text)
        several = isinstance(found, (tuple, list))
        parts = list(found) if several else [found]
        if not parts or len(parts) > 6:
            raise RefusedError("no values, or many")
        for part in parts:
            check_value(part)
        names = [f"v{self._next()}" for _ in parts]
        self.lines.append(f"{', '.join(names)}{',' * (several)} = {text}")
        self.values.update(zip(names, parts, strict=True))
        return names[0]

    def do(self, text: str, changed: str) -> None:
        """A statement that writes to ``changed``, the last one if its value is refused."""
        try:
            with torch.no_grad():
                exec(text, {**_GIVEN, **self.values})
        except Exception as error:
            raise RefusedError(str(error)) from error
        try:
            check_value(self.evaluate(changed))
        except RefusedError:
            self.broken = True
            raise
        self.lines.append(text)

    def evaluate(self, text: str) -> Any:
        """The value of an expression in eager PyTorch."""
        try:
            with torch.no_grad():
                return eval(text, {**_GIVEN, **self.values})
        except Exception as error:
            raise RefusedError(str(error)) from error

    def apart(self, first: str, second: str = "0.0") -> None:
        """Refuse to compare floats that rounding may order otherwise."""
        gap = self.evaluate(f"({first}) * 1.0 - ({second})").double().abs()
        if gap.numel() and gap.min() < 1e-2:
            raise RefusedError("near each other")

    def distinct(self, text: str, dim: int) -> None:
        """Refuse to order floats that are near each other in one dim."""
        value = self.evaluate(text).double()
        if value.dim():
            _check_gaps(value, dim)

    def spread(self, name: str, dims: str) -> None:
        """Refuse the variance of floats that are near each other: it is mostly their rounding.

        They are to deviate by a tenth of what they are, if they are not all the same one.
        """
        value, of = self._double(name, dims)
        deviation, size = value.std(of, correction=0), value.square().mean(of).sqrt()
        if ((deviation < 0.1 * size) & (deviation > 0)).any():
            raise RefusedError("near each other")

    def remains(self, name: str, dims: str) -> None:
        """Refuse a sum of which nothing is left but rounding."""
        value, of = self._double(name, dims)
        found, size = value.sum(of).abs(), value.abs().sum(of)
        if ((found < 1e-4 * size) & (found > 0)).any():
            raise RefusedError("near nothing")

    def sizes(self, name: str, dims: str) -> list[int]:
        """The sizes of dims; none of a number."""
        shape, of = self.values[name].shape, eval(dims)
        return [shape[dim] for dim in (of if isinstance(of, tuple) else (of,))] if shape else []

    def _double(self, name: str, dims: str) -> tuple[torch.Tensor, Any]:
        value = self.values[name].double()
        return value, eval(dims) if value.dim() else ()

    def undo(
        self, lines: int, made: int, names: set[str], used: set[str], weights: torch.Tensor
    ) -> None:
        """Forget what a refused statement began with."""
        del self.lines[lines:], self.made[made:]
        self.used, self.weights = used, weights
        for name in set(self.values) - names:
            del self.values[name]

    def _make(self, text: str) -> str:
        """Run a line of ``__init__``: its weights are those that the class will have."""
        torch.set_rng_state(self.weights)
        try:
            exec(text, {**_GIVEN, "self": self.module})
        except Exception as error:
            raise RefusedError(str(error)) from error
        self.weights = torch.get_rng_state()
        self.module.eval()
        self.made.append(text)
        return text.partition(" ")[0]

    def _next(self) -> int:
        self._count += 1
        return self._count


def _overlaps(value: torch.Tensor) -> bool:
    """Whether a tensor has one place in memory twice."""
    if not value.numel():
        return False
    reach = sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
    places = torch.arange(reach + 1).as_strided(value.shape, value.stride(), 0)
    return places.unique().numel() < value.numel()


def is_integer(value: torch.Tensor) -> bool:
    """Whether a tensor has integers."""
    return not value.is_floating_point() and value.dtype != torch.bool


def check_value(value: Any) -> None:
    """Refuse values that are large, or not finite, or no tensors."""
    if not isinstance(value, torch.Tensor):
        raise RefusedError("no tensor")
    if value.numel() > LARGEST_NUMEL or value.dim() > 6:
        raise RefusedError("large")
    if not value.dim() and str(value.dtype).removeprefix("torch.") not in WITHOUT_DIMS:
        raise RefusedError("one narrow number")
    if not value.numel() or value.dtype == torch.bool:
        return
    limit = LARGEST_FLOAT if value.is_floating_point() else LARGEST_INTEGER
    if not (value.isfinite().all() and value.double().abs().max() <= limit):
        raise RefusedError("large or not finite")


def _check_gaps(value: torch.Tensor, dim: int) -> None:
    gaps = value.sort(dim).values.diff(dim=dim)
    if gaps.numel() and gaps.min() < 1e-2:
        raise RefusedError("near each other")


def random_module(seed: int) -> RandomModule:
    """The module of one number."""
    from random_steps import STEPS, random_input, state

    writer = Writer(seed)
    torch.manual_seed(seed + 1)  # what is refused for its values depends on those of the example
    for index in range(writer.number(1, 4)):
        text = random_input(writer)
        writer.inputs.append(text)
        writer.values[f"x{index}"] = writer.evaluate(text)
    steps = [*STEPS, *([state] * 4 if writer.chance(0.3) else [])]
    wanted = writer.number(3, 14)
    for _ in range(200):
        _try(writer, writer.random.choice(steps))
        if len(writer.lines) >= wanted or writer.broken:
            break
    return RandomModule(seed, _source(writer), tuple(writer.inputs))


def _try(writer: Writer, step: Callable[[Writer], object]) -> None:
    before = (
        *(len(writer.lines), len(writer.made), set(writer.values), set(writer.used)),
        writer.weights,
    )
    try:
        step(writer)
    except RefusedError:
        writer.undo(*before)


def _source(writer: Writer) -> str:
    given = ", ".join(["self", *(f"x{index}" for index in range(len(writer.inputs)))])
    lines = [
        "class Module(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in writer.made),
        f"    def forward({given}):",
        *(f"        {line}" for line in [*writer.lines, _outputs(writer)]),
    ]
    return "\n".join(lines) + "\n"


def _outputs(writer: Writer) -> str:
    """Return what nothing else uses, and sometimes inputs, views, state or one value twice."""
    names = writer.tensors()
    made = [name for name in names if not name.startswith("x")]
    found = [name for name in made if name not in writer.used][-5:] or made[-1:] or names[-1:]
    found += [writer.random.choice(names) for _ in range(writer.one(0, 0, 0, 1, 2))]
    if writer.chance(0.1):
        viewed = writer.random.choice(names)
        found.append(f"{viewed}.reshape(-1)" if writer.chance(0.5) else f"{viewed}[..., None]")
    found = [_passable(writer, text) for text in found]
    if writer.chance(0.15):
        return f"return {{'first': {found[0]}, 'others': [{', '.join(found[1:])}]}}"
    return f"return {', '.join(found)}" if len(found) == 1 else f"return ({', '.join(found)})"


def _passable(writer: Writer, text: str) -> str:
    """An output that ExecuTorch can pass: it has no tensors that repeat their elements."""
    value = writer.evaluate(text)
    if not value.numel():  # exported, such tensors may have strides of 0, which it refuses, too
        return f"{text}.flatten()"
    repeats = any(
        not step and size > 1 for step, size in zip(value.stride(), value.shape, strict=True)
    )
    return f"{text}.contiguous()" if repeats else text
