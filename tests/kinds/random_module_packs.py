"""Many random modules as one, as compiling costs seconds, and what each of them should give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from random_modules import RandomModule
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

CALLS = 2
PERTURBED = 2

# They subtract a mean and divide by what is left: of equal values that is the rounding of the mean,
# times 316, in one implementation, and nothing in another.
_AROUND_A_MEAN = ("layer_norm", "group_norm", "batch_norm", "instance_norm")


class Pack(nn.Module):
    """Several modules that run one after the other, each on its own inputs."""

    def __init__(self, modules: Sequence[nn.Module], counts: Sequence[int]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)
        self._counts = list(counts)

    def forward(self, *inputs: Any) -> list[Any]:
        """The results of all of them."""
        found, start = [], 0
        for part, count in zip(self.parts, self._counts, strict=True):
            found.append(part(*inputs[start : start + count]))
            start += count
        return found


def pack(programs: Sequence[RandomModule]) -> tuple[nn.Module, tuple[Any, ...]]:
    """One module of many, and its inputs."""
    examples = [program.example() for program in programs]
    module = Pack([program.make() for program in programs], [len(one) for one in examples])
    return module.eval(), tuple(value for one in examples for value in one)


@dataclass(frozen=True)
class Expected:
    """What one output should be: eager's, and how far from it rounding may lead."""

    value: Any
    allowed: torch.Tensor | None

    def problem(self, found: Any) -> str | None:
        """What is wrong with an output; None if nothing is."""
        if not isinstance(self.value, torch.Tensor):
            return None if found == self.value else f"{found!r}, expected {self.value!r}"
        if (found.dtype, found.shape) != (self.value.dtype, self.value.shape):
            kinds = f"{found.dtype} {tuple(found.shape)}"
            return f"{kinds}, expected {self.value.dtype} {tuple(self.value.shape)}"
        assert self.allowed is not None
        wrong = ~((found.double() - self.value.double()).abs() <= self.allowed)
        if not wrong.any():
            return None
        place = tuple(wrong.nonzero()[0].tolist())
        return (
            f"{int(wrong.sum())} of {wrong.numel()} values; at {place} {found[place].item()!r},"
            f" expected {self.value[place].item()!r} within {self.allowed[place].item():.3g}"
        )


def expected_results(program: RandomModule) -> list[list[Expected]]:
    """What each of some calls in a row gives, from eager PyTorch.

    How much rounding matters is seen from the same module in float64, also with inputs and weights
    that differ by rounding, and what norms are given: a right compiler is as near as a few times
    what lies between them.
    """
    own = _calls(program.make(), program.example())
    exact = [_calls_in_float64(program, seed) for seed in range(PERTURBED + 1)]
    return [
        [
            _expected(value, [other[call][index] for other in exact], program.rounding)
            for index, value in enumerate(values)
        ]
        for call, values in enumerate(own)
    ]


def _calls(module: nn.Module, inputs: tuple[Any, ...]) -> list[list[Any]]:
    with torch.no_grad():
        return [
            [copied(value) for value in pytree.tree_leaves(module(*inputs))] for _ in range(CALLS)
        ]


def copied(value: Any) -> Any:
    """A copy of a tensor, or the number."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _calls_in_float64(program: RandomModule, seed: int) -> list[list[Any]]:
    module = program.make_in_float64()
    inputs = [_as_float64(value) for value in program.example()]
    if seed:
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(_perturbed(parameter, program.rounding))
        inputs = [_perturbed(value, program.rounding) for value in inputs]
    perturbed = _PerturbedNorms(program.rounding) if seed else nullcontext()
    with _float64_by_default(), perturbed:
        return _calls(module, tuple(inputs))


class _PerturbedNorms(TorchDispatchMode):
    """Gives norms inputs that differ by rounding, each element by its own."""

    def __init__(self, rounding: float) -> None:
        super().__init__()
        self._rounding = rounding

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in func.__name__ for name in _AROUND_A_MEAN):
            args = (_perturbed(args[0], self._rounding), *args[1:])
        return func(*args, **(kwargs or {}))


def _as_float64(value: Any) -> Any:
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floats else value


def _perturbed(value: Any, rounding: float) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value * (1 + rounding * (torch.rand(value.shape, dtype=value.dtype) - 0.5))


@contextmanager
def _float64_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _expected(value: Any, exact: list[Any], rounding: float) -> Expected:
    if not isinstance(value, torch.Tensor):
        return Expected(value, None)
    wide = value.double()
    spread = torch.stack([(other.double() - wide).abs() for other in exact]).amax(0)
    if not value.is_floating_point():
        # A wrong integer is wrong by any number, as where rounding decides it.
        return Expected(value, torch.where(spread > 0, torch.inf, 0.0))
    usual = spread.flatten().quantile(0.9) if spread.numel() else 0.0
    largest = wide.abs().amax() if wide.numel() else 0.0
    step = max(rounding, torch.finfo(value.dtype).eps)
    # What cancels to nothing, as the variance of one value, may keep the rounding of its parts: a
    # GPU multiplies and adds in one step.
    least = 1e-12 if largest else rounding
    return Expected(value, 4 * spread + 4 * usual + 8 * step * (wide.abs() + 0.1 * largest) + least)


Run = Callable[[nn.Module, tuple[Any, ...]], list[list[Any]]]


def problems(programs: Sequence[RandomModule], run: Run) -> list[str]:
    """Run many modules as one; where that fails, each on its own.

    Args:
        programs: the modules.
        run: lowers a module and calls it ``CALLS`` times with the same inputs; the outputs of each.

    Returns:
        What is wrong, with everything that makes it again.
    """
    try:
        found = run(*pack(programs))
    except Exception as error:
        if len(programs) == 1:
            return [f"{type(error).__name__}: {error}\n{programs[0]}"]
        middle = len(programs) // 2
        both = problems(programs[:middle], run) + problems(programs[middle:], run)
        return both or [f"only together, {[one.seed for one in programs]}: {error}"]
    return list(_differences(programs, found))


def _differences(programs: Sequence[RandomModule], found: list[list[Any]]) -> Iterator[str]:
    expected = [expected_results(program) for program in programs]
    for program, lines in zip(programs, wrong_outputs(expected, found), strict=True):
        if lines:
            yield "\n".join([*lines, str(program)])


def wrong_outputs(
    expected: Sequence[list[list[Expected]]], found: list[list[Any]]
) -> Iterator[list[str]]:
    """For each module what is wrong with its outputs.

    Args:
        expected: of each module, for each call, its outputs.
        found: for each call the outputs of all modules.
    """
    start = 0
    for calls in expected:
        yield [
            f"call {call}, output {index}: {problem}"
            for call in range(CALLS)
            for index, one in enumerate(calls[call])
            if (problem := one.problem(found[call][start + index]))
        ]
        start += len(calls[0])
