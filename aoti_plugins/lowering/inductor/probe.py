"""Ask Inductor, before anything is compiled, what it would make of one node.

Whether Inductor generates a kernel or calls one depends on the op, on dtypes, sizes and strides;
its lowerings are the only true answer. So a graph of that one node is run through code generation
(about 50 ms) and read. Answers are cached by op and arguments; of convolutions that are alike a
small one is asked about (``alike.py``). Not asked about is what is generated for sure
(``generated_ops.py``) and no plugin decomposes.

Most of the 50 ms are the same for a graph of any size. So many questions are asked as one graph,
whose parts have nothing in common; where that does not answer them, they are asked one by one.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from aoti_plugins.errors import UnsupportedError
from aoti_plugins.lowering.inductor.alike import (
    CONVOLUTIONS,
    smallest_alike,
    strides_alike,
    widened,
)
from aoti_plugins.lowering.inductor.blame import explained, is_about_the_op
from aoti_plugins.lowering.inductor.checked_counts import checked_counts
from aoti_plugins.lowering.inductor.custom_ops import custom_op_options, merge
from aoti_plugins.lowering.inductor.generate import (
    Generation,
    forget_pending_sizes,
    generation,
    shims_called,
)
from aoti_plugins.lowering.inductor.generated_ops import (
    FLOATS,
    is_generated,
    is_like_pointwise,
    is_view,
)
from aoti_plugins.lowering.inductor.joined_graphs import joined, num_outputs
from aoti_plugins.lowering.inductor.no_triton import no_launch_in_decompositions
from aoti_plugins.lowering.inductor.patching import inductor_lock
from aoti_plugins.lowering.inductor.shim_owners import Share, calls_in, shims_of_each
from aoti_plugins.lowering.inductor.versions import warn_if_untested
from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.passes.restore_views import VIEWS
from aoti_plugins.lowering.quiet import quiet
from aoti_plugins.lowering.values import hint
from aoti_plugins.types import FallbackKernel

logger = logging.getLogger(__name__)

_aten = torch.ops.aten

# A question compiles nothing that worker processes could help with, and measures nothing: which
# kernel is faster does not change which shims there have to be. Questions share no memory.
_OPTIONS = {
    "compile_threads": 1,
    "max_autotune": False,
    "max_autotune_gemm": False,
    "allow_buffer_reuse": False,
    "memory_planning": False,
}

_MOST_TOGETHER, _FEWEST_TOGETHER = 64, 3


@dataclass(frozen=True)
class Answer:
    """What Inductor makes of a node.

    Attributes:
        shims: C shims that the code calls.
        proxy_ops: ops that have no C shim and would need libtorch.
        error: why Inductor cannot lower it; empty if it can.
        is_decomposed: whether a plugin's decomposition took it apart before Inductor saw it.
    """

    shims: frozenset[str] = frozenset()
    proxy_ops: tuple[str, ...] = ()
    error: str = ""
    is_decomposed: bool = False


@dataclass(frozen=True)
class _Leaf:
    """Cache key of a tensor argument."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def fake(self) -> torch.Tensor:
        """Such a tensor, of the fake mode that is on."""
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype)

    def resized(self, sizes: tuple[int, ...]) -> _Leaf | None:
        """The same with other sizes; ``None`` where its layout cannot be that of another."""
        strides = strides_alike(self.sizes, self.strides, sizes)
        return None if strides is None else _Leaf(self.dtype, sizes, strides)


@dataclass(frozen=True)
class _Question:
    """A node's op and what it is called with: tensors by dtype, sizes and strides."""

    op: Any
    described: list[Any]
    spec: pytree.TreeSpec

    @property
    def key(self) -> tuple[Any, str, str]:
        return self.op, str(self.spec), repr(self.described)

    @property
    def can_be_together(self) -> bool:
        """Whether its graph may be a part of a larger one."""
        op = self.op
        if not isinstance(op, torch._ops.OpOverload) or op._schema.is_mutable:
            return False
        random = torch.Tag.nondeterministic_seeded in op.tags
        return bool(op._schema.returns) and not random and not self._data_decides

    @property
    def _data_decides(self) -> bool:
        if self.op is not _aten.index.Tensor:
            return _data_decides(self.op)
        dtypes = {leaf.dtype for leaf in self.described if isinstance(leaf, _Leaf)}
        return bool(dtypes & {torch.bool, torch.uint8})  # where a mask may be an index


@dataclass(frozen=True)
class _Part:
    """The graph of a question."""

    question: _Question
    module: GraphModule
    inputs: list[Any]
    is_decomposed: bool


class _OpRefusedError(Exception):
    """An op does not take what a node calls it with; the cause says why."""


class Probe:
    """Answers questions about nodes for one device and one set of options.

    Args:
        options: Inductor options of the lowering to come.
        decompositions: what plugins decompose before Inductor sees it.
        kernels: fallback kernels of all plugins for the device.
        environment: makes the patches for the target, anew for each question.
        torch_device: the device that the tensors are on.
        provider: says which plugin sets an option.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        decompositions: Mapping[Any, Callable[..., Any]],
        kernels: Iterable[FallbackKernel],
        environment: Callable[[], AbstractContextManager[None]],
        torch_device: str = "cpu",
        provider: Callable[[str], str] = lambda option: "a plugin",
    ) -> None:
        warn_if_untested()  # not while a question is asked, which warns of nothing
        self._options = options
        self._provider = provider
        self._decompositions = dict(decompositions)
        self._kernels = tuple(kernels)
        self._environment = environment
        self._torch_device = torch_device
        self._answers: dict[Any, Answer] = {}
        self._left_as_they_are: dict[Any, bool] = {}

    def ask(self, node: Node) -> Answer:
        """What Inductor makes of a ``call_function`` node with an ATen-like op.

        Args:
            node: its arguments must carry ``meta["val"]``.

        Raises:
            Exception: what is not about the op: a patch of PyTorch that does not fit, a plugin's
                decomposition or option that raises, a full disk.
        """
        if self._is_known(node):
            return Answer()
        question = self._question(node)
        if question.key not in self._answers:
            self._answers[question.key] = self._answer(question)
        return self._answers[question.key]

    def prepare(self, nodes: Iterable[Node]) -> None:
        """Find most answers about nodes at once, which takes less time than one after the other.

        Args:
            nodes: as ``ask`` takes them.
        """
        asked = (self._question(node) for node in nodes if not self._is_known(node))
        questions = {question.key: question for question in asked}
        left = [q for q in questions.values() if q.key not in self._answers and q.can_be_together]
        for start in range(0, len(left), _MOST_TOGETHER):
            self._answer_together(left[start : start + _MOST_TOGETHER])

    def _question(self, node: Node) -> _Question:
        """What is asked about a node: it, or a smaller one of which Inductor makes the same."""
        question = _question_of(node)
        is_alike = question.op in CONVOLUTIONS and question.op not in self._decompositions
        return _smaller_convolution(question) if is_alike else question

    def _is_known(self, node: Node) -> bool:
        """Whether no question is needed."""
        op = aten_op(node.target)
        if is_generated(op, node) or is_view(op, node):
            return True
        return is_like_pointwise(op, node) and self._is_left_as_it_is(op, node)

    def _is_left_as_it_is(self, op: Any, node: Node) -> bool:
        """Whether no plugin decomposes an op where a node calls it."""
        if op not in self._decompositions:
            return True
        question = _question_of(node)
        if question.key not in self._left_as_they_are:
            self._left_as_they_are[question.key] = self._declines(question)
        return self._left_as_they_are[question.key]

    def _declines(self, question: _Question) -> bool:
        """Whether the decomposition of a question's op has none for its arguments."""
        with FakeTensorMode(), no_launch_in_decompositions():
            given = [
                leaf.fake() if isinstance(leaf, _Leaf) else leaf for leaf in question.described
            ]
            args, kwargs = pytree.tree_unflatten(given, question.spec)
            try:
                found = self._decompositions[question.op](*args, **kwargs)
            except Exception as error:  # comes again where it is asked about
                logger.debug("a decomposition of %s failed", question.op, exc_info=error)
                return False
        return found is NotImplemented

    def _answer_together(self, questions: Sequence[_Question]) -> None:
        """Ask questions as one graph; what that does not tell is left to ``ask``."""
        if len(questions) < _FEWEST_TOGETHER:
            return
        with inductor_lock, quiet():
            parts = self._parts(questions)
            if not parts:
                return
            module, inputs = joined([(part.module, part.inputs) for part in parts])
            with self._generation(module, inputs) as (prepared, options):
                try:
                    code = prepared.run()
                except Exception as error:
                    logger.debug("asking %d questions as one failed", len(parts), exc_info=error)
                    code = None
                    if not is_about_the_op(error, options):
                        return  # who asks one question is told
        if code is None or code.proxy_ops or calls_in(code.kernels):
            half = len(parts) // 2
            self._answer_together([part.question for part in parts[:half]])
            self._answer_together([part.question for part in parts[half:]])
            return
        shares = [Share(len(part.inputs), num_outputs(part.module)) for part in parts]
        for part, shims in zip(parts, shims_of_each(code.wrapper, shares), strict=True):
            if shims is not None:
                answer = Answer(shims, is_decomposed=part.is_decomposed)
                self._answers[part.question.key] = answer

    def _parts(self, questions: Sequence[_Question]) -> list[_Part]:
        """The graphs of questions, with fake tensors of one mode; without what its op refuses."""
        found, mode = [], FakeTensorMode()
        for question in questions:
            try:
                found.append(self._part(question, mode))
            except Exception as error:  # comes again where it is asked alone
                logger.debug("a graph of %s failed", question.op, exc_info=error)
        return found

    def _part(self, question: _Question, mode: FakeTensorMode) -> _Part:
        """The graph of one question.

        Raises:
            _OpRefusedError: the op itself, called with what the node calls it with.
            UnsupportedError: its decomposition.
        """
        op = question.op
        try:
            with checked_counts():
                module, inputs = _graph_of_one(
                    VIEWS.get(op, op), question.described, question.spec, mode
                )
        except Exception as error:
            raise _OpRefusedError from error
        has_decomposition = op in self._decompositions
        if has_decomposition:
            module = self._decomposed(module, inputs)
        return _Part(question, module, inputs, has_decomposition and not _calls(module, op))

    @contextmanager
    def _generation(
        self, module: GraphModule, inputs: list[Any]
    ) -> Iterator[tuple[Generation, dict[str, Any]]]:
        """Set a question up; gives the options, too."""
        options = merge(self._options, custom_op_options(module, self._kernels)) | _OPTIONS
        environment = self._environment()
        with generation(module, inputs, options, environment, self._torch_device) as prepared:
            yield prepared, options

    def _answer(self, question: _Question) -> Answer:
        op = question.op
        with inductor_lock, quiet():
            try:
                part = self._part(question, _mode_for(op))
            except _OpRefusedError as error:
                return _refused(op, error.__cause__ or error)
            except UnsupportedError as error:
                return _refused(op, error)
            with self._generation(part.module, part.inputs) as (prepared, options):
                try:
                    code = prepared.run()
                except Exception as error:
                    if is_about_the_op(error, options):
                        return _refused(op, error)
                    blamed = explained(error, options, self._provider)
                    if blamed is None:
                        raise
                    raise blamed from error
        return Answer(shims_called(code), code.proxy_ops, is_decomposed=part.is_decomposed)

    def _decomposed(self, module: GraphModule, inputs: list[Any]) -> GraphModule:
        # Tensors that a decomposition makes must be as fake as the inputs.
        mode = detect_fake_mode(inputs)
        forget_pending_sizes(inputs)
        with mode or FakeTensorMode(), no_launch_in_decompositions():
            traced = make_fx(module, decomposition_table=self._decompositions)(*inputs)
        if mode is None:  # Inductor makes a mode of its own, which must not meet this one
            for node in traced.graph.nodes:
                node.meta.clear()
        return traced


def _refused(op: Any, error: BaseException) -> Answer:
    logger.debug("probing %s failed", op, exc_info=error)
    return Answer(error=_first_line(error))


def _calls(module: GraphModule, op: Any) -> bool:
    """Whether a graph still has an op, as it does where its decomposition declined."""
    return any(node.target is VIEWS.get(op, op) for node in module.graph.nodes)


def _question_of(node: Node) -> _Question:
    leaves, spec = pytree.tree_flatten(
        (node.args, node.kwargs), is_leaf=lambda x: isinstance(x, Node)
    )
    return _Question(aten_op(node.target), [_describe(leaf) for leaf in leaves], spec)


def _smaller_convolution(question: _Question) -> _Question:
    """A question about a small convolution that stands for one; itself if there is none."""
    args, kwargs = pytree.tree_unflatten(question.described, question.spec)
    defaults: tuple[Any, ...] = (None, 1, 0, 1, 1)
    images, weight, bias, *numbers, groups = tuple(args) + defaults[len(args) - 2 :]
    dims = CONVOLUTIONS[question.op]
    tensors = [leaf for leaf in (images, weight, bias) if leaf is not None]
    if kwargs or len(images.sizes) != dims + 2 or not {t.dtype for t in tensors} <= FLOATS:
        return question
    strides, padding, dilation = (widened(number, dims) for number in numbers)
    small = smallest_alike(images.sizes, weight.sizes, strides, padding, dilation, groups)
    if small is None:
        return question
    sizes = small.images, small.weight, small.weight[:1]
    made = [leaf.resized(to) for leaf, to in zip(tensors, sizes, strict=False)]
    if None in made:
        return question
    given = (*made, *args[len(made) : 6], small.groups)[: len(args)]
    return replace(question, described=pytree.tree_flatten((given, kwargs))[0])


def _describe(leaf: Any) -> Any:
    value = leaf.meta["val"] if isinstance(leaf, Node) else leaf
    if isinstance(value, torch.Tensor):
        return _Leaf(value.dtype, tuple(map(hint, value.size())), tuple(map(hint, value.stride())))
    return hint(value) if isinstance(value, torch.SymInt) else value


def _graph_of_one(
    op: Any, described: list[Any], spec: pytree.TreeSpec, mode: FakeTensorMode
) -> tuple[GraphModule, list[Any]]:
    graph = Graph()
    inputs: list[Any] = []
    arguments: list[Any] = []
    with mode:
        for leaf in described:
            if isinstance(leaf, _Leaf):
                node = graph.placeholder(f"arg{len(inputs)}")
                node.meta["val"] = leaf.fake()
                inputs.append(node.meta["val"])
                arguments.append(node)
            else:
                arguments.append(leaf)
        args, kwargs = pytree.tree_unflatten(arguments, spec)
        result = graph.call_function(op, args, kwargs)
        fakes, named = torch.fx.map_arg((args, kwargs), lambda one: one.meta["val"])
        outputs = op(*fakes, **named)
    if isinstance(outputs, list | tuple):
        graph.output(
            tuple(
                graph.call_function(operator.getitem, (result, index))
                for index, output in enumerate(outputs)
                if isinstance(output, torch.Tensor)
            )
        )
    else:
        graph.output((result,))
    return GraphModule(torch.nn.Module(), graph), inputs


def _mode_for(op: Any) -> FakeTensorMode:
    """A mode in which sizes may be unknown where the op's result has such ones."""
    shape_env = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    return FakeTensorMode(shape_env=shape_env if _data_decides(op) else None)


def _data_decides(op: Any) -> bool:
    tags = getattr(op, "tags", ())
    return torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
