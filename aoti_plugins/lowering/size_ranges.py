"""Which sizes a partition takes, 0 and 1 included.

``torch.export`` traces a dynamic size as if it were 2 or more, and its own programs take 0 and 1
all the same: a lower bound of 2 says nothing. ExecuTorch keeps only that bound and forgets the one
that the user gave. While a partition is lowered, the symbols of its sizes get the range that the
program really has, so that code is generated for all of it.

Not every program can be run with 0 or 1: the largest of no elements does not exist, and ``squeeze``
drops a dimension of size 1. So the partition is tried with fake tensors of these sizes: a size that
PyTorch refuses there, or for which some result has other sizes than the traced ones, is refused.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Interpreter, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from aoti_plugins.lowering.inductor.patching import replaced
from aoti_plugins.lowering.quiet import quiet
from aoti_plugins.lowering.values import hint

if TYPE_CHECKING:
    from torch.export import ExportedProgram

logger = logging.getLogger(__name__)

_TRACED_AT_LEAST = 2
_declared: WeakKeyDictionary[ShapeEnv, dict[sympy.Symbol, int]] = WeakKeyDictionary()


def remember(program: ExportedProgram) -> None:
    """Keep the lower bounds of an exported program that its sizes have beneath the traced ones.

    Called with the program as the user exported it, if ExecuTorch shows it; without it 0 is the
    bound.
    """
    shape_env = _shape_env(program)
    if shape_env is None:
        return
    for symbol, bounds in program.range_constraints.items():
        if bounds.lower in (0, 1):
            _declared.setdefault(shape_env, {})[symbol] = int(bounds.lower)


def exported_bounds(size: int | torch.SymInt) -> tuple[int, int | None]:
    """Smallest and largest value of an input's size, as exported; ``None``: no bound.

    What ``remember`` kept counts, and a lower bound of 2 says nothing. A size within these bounds
    that PyTorch refuses is refused all the same.
    """
    if isinstance(size, int):
        return size, size
    shape_env, expression = size.node.shape_env, size.node.expr
    declared = _declared.get(shape_env, {})
    ranges = {}
    for symbol in expression.free_symbols:
        ranges[symbol] = known = shape_env.var_to_range[symbol]
        if known.lower == _TRACED_AT_LEAST and symbol_is_type(symbol, SymT.SIZE):
            ranges[symbol] = ValueRanges(declared.get(symbol, 0), known.upper)
    found = bound_sympy(expression, ranges)
    upper = int(found.upper) if found.upper.is_Integer else None
    return max(int(found.lower) if found.lower.is_Integer else 0, 0), upper


@contextlib.contextmanager
def as_exported(program: ExportedProgram) -> Iterator[None]:
    """Let the sizes of a partition have their whole range, for the block.

    Args:
        program: the partition, an edge program.
    """
    shape_env = _shape_env(program)
    lower = {} if shape_env is None else _lower_bounds(program, shape_env)
    if shape_env is None or not lower:
        yield
        return
    before = {symbol: shape_env.var_to_range[symbol] for symbol in lower}
    opened = {s: ValueRanges(lower[s], bounds.upper) for s, bounds in before.items()}
    try:
        _set_ranges(shape_env, opened)
        with _kept(shape_env, opened):
            yield
    finally:
        _set_ranges(shape_env, before)


def _kept(
    shape_env: ShapeEnv, ranges: Mapping[sympy.Symbol, ValueRanges[sympy.Expr]]
) -> AbstractContextManager[Any]:
    """What is found out about the example's sizes narrows no range, for the block.

    PyTorch takes every answer about a size for a promise: of one that it asked whether it is 1,
    which the example's is not, it would know that it never is.
    """

    def refine(original: Any, expr: Any) -> None:
        original(expr)
        if any(shape_env.var_to_range[symbol] != known for symbol, known in ranges.items()):
            _set_ranges(shape_env, ranges)

    return replaced(shape_env, "_refine_ranges", refine)


def _set_ranges(
    shape_env: ShapeEnv, ranges: Mapping[sympy.Symbol, ValueRanges[sympy.Expr]]
) -> None:
    shape_env.var_to_range.update(ranges)
    shape_env._update_version_counter()  # it keeps answers


def _shape_env(program: ExportedProgram) -> ShapeEnv | None:
    values = [node.meta.get("val") for node in program.graph.nodes]
    mode = detect_fake_mode([value for value in values if value is not None])
    return None if mode is None else mode.shape_env


def _lower_bounds(program: ExportedProgram, shape_env: ShapeEnv) -> dict[sympy.Symbol, int]:
    """The lower bounds of those input sizes whose traced one says nothing."""
    symbols = [s for s in _sizes(program) if shape_env.var_to_range[s].lower == _TRACED_AT_LEAST]
    declared = _declared.get(shape_env, {})
    lower = {s: _lower_bound(program, [s], declared.get(s, 0)) for s in symbols}
    if len(symbols) > 1 and _why_not(program, lower):
        together = _lower_bound(program, symbols, 1)
        lower = {symbol: max(bound, together) for symbol, bound in lower.items()}
    return lower


def _lower_bound(program: ExportedProgram, symbols: Iterable[sympy.Symbol], declared: int) -> int:
    lower = _TRACED_AT_LEAST
    while lower > declared:
        reason = _why_not(program, dict.fromkeys(symbols, lower - 1))
        if reason:
            logger.info("sizes %s are at least %d: %s", symbols, lower, reason)
            break
        lower -= 1
    return lower


def _sizes(program: ExportedProgram) -> list[sympy.Symbol]:
    """Symbols of the sizes that the inputs have, the user's ones and those of other partitions."""
    found: dict[sympy.Symbol, None] = {}
    for node in _placeholders(program):
        value = node.meta.get("val")
        for size in value.size() if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                found.update(dict.fromkeys(sorted(size.node.expr.free_symbols, key=str)))
    return [symbol for symbol in found if symbol_is_type(symbol, SymT.SIZE)]


def _placeholders(program: ExportedProgram) -> list[Node]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _why_not(program: ExportedProgram, sizes: Mapping[sympy.Symbol, int]) -> str:
    """Why a partition cannot be run with some sizes; empty if it can."""
    shape_env = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    with quiet(), FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True):
        inputs = [_concrete(node.meta.get("val"), sizes) for node in _placeholders(program)]
        try:
            _Trial(program.graph_module, sizes).run(*inputs, enable_io_processing=False)
        except Exception as error:  # whatever PyTorch says to such a size
            return str(error).splitlines()[0] if str(error) else type(error).__name__
    return ""


class _Trial(Interpreter):
    """Runs a graph, and compares the sizes of all results with the traced ones."""

    def __init__(self, module: torch.fx.GraphModule, sizes: Mapping[sympy.Symbol, int]) -> None:
        super().__init__(module)
        self._sizes = sizes
        self.extra_traceback = False

    def run_node(self, n: Node) -> Any:
        """Run one node.

        Raises:
            ValueError: it has other sizes than the traced one.
        """
        result = super().run_node(n)
        if n.op == "call_function":
            found, traced = pytree.tree_leaves(result), pytree.tree_leaves(n.meta.get("val"))
            for one, other in zip(found, traced, strict=True):
                self._compare(n, one, other)
        return result

    def _compare(self, node: Node, found: Any, traced: Any) -> None:
        if not isinstance(found, torch.Tensor) or not isinstance(traced, torch.Tensor):
            return
        sizes = tuple(found.size())
        # What data decides has no number here.
        expected = tuple(
            _number(there, self._sizes) if isinstance(here, int) else here
            for here, there in zip(sizes, traced.size(), strict=False)
        )
        if len(sizes) != traced.dim() or sizes != expected:
            raise ValueError(f"{node.target} gives sizes {sizes}, traced as {tuple(traced.size())}")


def _concrete(value: Any, sizes: Mapping[sympy.Symbol, int]) -> Any:
    """A fake tensor or a number in place of one with symbolic sizes."""
    if isinstance(value, torch.SymInt):
        return _number(value, sizes)
    if not isinstance(value, torch.Tensor):
        return value
    shape = [_number(size, sizes) for size in value.size()]
    strides = [_number(stride, sizes) for stride in value.stride()]
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)


def _number(size: int | torch.SymInt, sizes: Mapping[sympy.Symbol, int]) -> int:
    if isinstance(size, int):
        return size
    shape_env = size.node.shape_env
    numbers = {
        s: sizes[s] if s in sizes else hint(shape_env.create_symintnode(s, hint=None))
        for s in size.node.expr.free_symbols
    }
    return int(size.node.expr.subs(numbers))
