"""Which nodes a delegate can run, decided before anything is compiled, and why not."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.fx import Node

from aoti_plugins.device import Device
from aoti_plugins.errors import AotiPluginsError, LoweringError
from aoti_plugins.lowering.assertions import is_assertion
from aoti_plugins.lowering.carried_ops import node_name, under_its_own_name
from aoti_plugins.lowering.executorch_kernels import missing_kernel
from aoti_plugins.lowering.inductor.probe import Answer, Probe
from aoti_plugins.lowering.layers.folded_op import is_folded
from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.runtime_shims import AvailableShims
from aoti_plugins.lowering.values import dtype_code

logger = logging.getLogger(__name__)

_TORCH_FILES = f'File "{Path(torch.__file__).parent}'


@dataclass(frozen=True)
class Refusal:
    """Why one node stays outside the delegate.

    Attributes:
        node: the node's name.
        op: the op's qualified name.
        reason: what is missing.
        remedy: what would provide it.
        module: path of the module in the user's model; may be empty.
        source: the user's source line; may be empty.
        kernel: what ExecuTorch lacks to run it; empty where it has a kernel.
    """

    node: str
    op: str
    reason: str
    remedy: str
    module: str
    source: str
    kernel: str = ""

    def __str__(self) -> str:
        where = "".join(
            f"\n    {label}: {text}"
            for label, text in (("module", self.module), ("source", self.source))
            if text
        )
        what = f"{self.op} (node {self.node!r}): {self.reason}"
        kernel = f"\n    {self.kernel}" if self.kernel else ""
        return f"{what}{where}{kernel}\n    to delegate it: {self.remedy}"


@dataclass(frozen=True)
class Verdict:
    """How one node is run.

    Attributes:
        refusal: why it stays outside the delegate; ``None`` if it does not.
        kernels: C shims of kernels for ops that its code calls.
        is_decomposed: whether a plugin decomposes it.
        is_replaced: whether a graph pass puts something else in its place.
    """

    refusal: Refusal | None = None
    kernels: frozenset[str] = frozenset()
    is_decomposed: bool = False
    is_replaced: bool = False


class _Unknown:
    """Inductor has to be asked."""


_UNKNOWN = _Unknown()


class Support:
    """Decides about nodes of one program for one device.

    Args:
        device: the device to lower for.
        probes: ask Inductor, one for each target; all must agree.
        shims: C shims that the runtime or a plugin provides.
        handled: say of a node that a graph pass replaces it by something that can be run.
        excluded: names of ops that the user leaves to others.
    """

    def __init__(
        self,
        device: Device,
        probes: Sequence[Probe],
        shims: AvailableShims,
        handled: Sequence[Callable[[Node], bool]] = (),
        excluded: Collection[str] = (),
    ) -> None:
        self._device = device
        self._probes = probes
        self._shims = shims
        self._handled = tuple(handled)
        self._excluded = frozenset(excluded)
        self._decided: dict[Node, Refusal | None] = {}
        self._is_replaced: dict[Node, bool] = {}

    def refusal(self, node: Node) -> Refusal | None:
        """Why a node cannot be delegated; ``None`` if it can."""
        if node not in self._decided:
            self._decided[node] = self._decide(node)
        return self._decided[node]

    def prepare(self, nodes: Iterable[Node]) -> None:
        """Ask about many nodes at once, which takes less time; ``refusal`` then knows the answers.

        Args:
            nodes: of the program, in any order.
        """
        left = [n for n in nodes if n not in self._decided and n.target is not operator.getitem]
        asked = [n for n in left if self._known(n) is _UNKNOWN]
        for probe in self._probes:
            probe.prepare(asked)

    def verdict(self, node: Node) -> Verdict:
        """How a node is run, or why it is not."""
        refusal = self.refusal(node)
        if refusal is not None:
            return Verdict(refusal)
        if node.op != "call_function" or node.target is operator.getitem:
            return Verdict()
        if is_assertion(node) or _is_symbolic_arithmetic(node):
            return Verdict()
        if self._is_handled(node):
            return Verdict(is_replaced=True)
        answers = [self._ask(probe, node) for probe in self._probes]
        own = f"aoti_torch_{self._device.torch_type}_"
        return Verdict(
            kernels=frozenset(s for a in answers for s in a.shims if s.startswith(own)),
            is_decomposed=any(answer.is_decomposed for answer in answers),
        )

    def _decide(self, node: Node) -> Refusal | None:
        known = self._known(node)
        if not isinstance(known, _Unknown):
            return known
        judged = (self._judge(node, self._ask(probe, node)) for probe in self._probes)
        return next((refusal for refusal in judged if refusal is not None), None)

    def _known(self, node: Node) -> Refusal | _Unknown | None:
        """What is known of a node without asking Inductor."""
        if node.op != "call_function":
            return _refuse(node, f"a {node.op} node is not an op", "nothing to do")
        if node.target is operator.getitem:
            return self.refusal(node.args[0]) if isinstance(node.args[0], Node) else None
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return _refuse_control_flow(node)
        if is_folded(node):
            return None
        if op_name(node) in self._excluded:
            return _refuse(node, "the option 'exclude' names it", "take it out of that option")
        if is_assertion(node) or _is_symbolic_arithmetic(node):
            return None
        if self._is_handled(node):
            return None
        try:
            _check_dtypes(node)
        except LoweringError as error:
            return _refuse(node, str(error), "cast to a dtype that the payload can carry")
        dtypes = {_name(tensor.dtype) for tensor in _tensors((node, *node.all_input_nodes))}
        missing = [why for name, why in self._device.missing_dtypes.items() if name in dtypes]
        if missing:
            return _refuse(node, missing[0], "cast in the model, to float32 for instance")
        return _UNKNOWN

    def _ask(self, probe: Probe, node: Node) -> Answer:
        """What Inductor makes of a node; what is not about its op ends the lowering."""
        try:
            return probe.ask(node)
        except AotiPluginsError:
            raise
        except Exception as error:
            raise LoweringError(
                f"cannot ask Inductor about {op_name(node)} (node {node_name(node)!r}) for "
                f"{self._device.name} with torch {torch.__version__}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _is_handled(self, node: Node) -> bool:
        if node not in self._is_replaced:
            with under_its_own_name(node):
                self._is_replaced[node] = any(handles(node) for handles in self._handled)
        return self._is_replaced[node]

    def _judge(self, node: Node, answer: Answer) -> Refusal | None:
        if answer.error:
            return _refuse(
                node,
                f"Inductor cannot lower it: {answer.error}",
                "a plugin with a decomposition for it (hook aoti_decompositions)",
            )
        if answer.proxy_ops:
            return _refuse(
                node,
                f"it has no C shim; libtorch would run {', '.join(answer.proxy_ops)}",
                "a plugin with a fallback kernel or a decomposition for it "
                "(hooks aoti_fallback_kernels, aoti_decompositions)",
            )
        missing = sorted(shim for shim in answer.shims if shim not in self._shims)
        if missing:
            return _refuse(
                node,
                f"Inductor calls {', '.join(missing)}, which nobody provides for "
                f"{self._device.name}",
                "a plugin with that fallback kernel (hook aoti_fallback_kernels)",
            )
        return self._judge_dtypes(node, answer)

    def _judge_dtypes(self, node: Node, answer: Answer) -> Refusal | None:
        dtypes = {tensor.dtype for tensor in _tensors(node.all_input_nodes)}
        if answer.is_decomposed:  # complex numbers into pairs of real ones
            dtypes |= {dtype.to_real() for dtype in dtypes if dtype.is_complex}
        found = set(map(_name, dtypes))
        for shim in sorted(answer.shims):
            taken = self._shims.dtypes(shim)
            # A kernel may get but some of the tensors, and others in another dtype.
            if taken and found and not found & set(taken):
                return _refuse(
                    node,
                    f"its kernel {shim} takes {', '.join(taken)}, not {', '.join(sorted(found))}",
                    "a cast in the model, or a plugin with a kernel for that dtype",
                )
        return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def warn(refusals: Iterable[Refusal], device: str) -> None:
    """Log one warning that lists what stays outside the delegate, once per op and reason.

    It says of each op for which ExecuTorch has no kernel that it has none.
    """
    refusals = list(refusals)
    if refusals:
        logger.warning(
            "%d node(s) stay outside the %s delegate, for ExecuTorch's own kernels:\n%s",
            len(refusals),
            device,
            listed(refusals),
        )


def listed(refusals: Iterable[Refusal]) -> str:
    """A line or two for each op and reason."""
    by_reason: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refusals:
        by_reason.setdefault((refusal.op, refusal.reason), []).append(refusal)
    lines = []
    for group in by_reason.values():
        more = f" (and {len(group) - 1} more like it)" if len(group) > 1 else ""
        lines.append(f"- {group[0]}{more}")
    return "\n".join(lines)


def warn_of_state(buffers: Sequence[str], device: str) -> None:
    """Log one warning that lists the mutated buffers that a delegate uses and does not keep."""
    if not buffers:
        return
    logger.warning(
        "ExecuTorch keeps what this program writes to %s: more than one %s delegate, or what "
        "stays outside, uses it, or the program returns it. ExecuTorch stores no first value "
        "(InitializedMutableBufferPass adds it), and methods share such a buffer only with "
        "MemoryPlanningPass(share_mutable_buffers=True).",
        ", ".join(buffers),
        device,
    )


def _refuse(node: Node, reason: str, remedy: str) -> Refusal:
    where = module_path(node), source_line(node)
    kernel = missing_kernel(aten_op(node.target))
    return Refusal(node_name(node), op_name(node), reason, remedy, *where, kernel)


_EXECUTORCHS_CONTROL_FLOW = ("cond", "map_impl", "scan")


def _refuse_control_flow(node: Node) -> Refusal:
    if op_name(node) in _EXECUTORCHS_CONTROL_FLOW:
        return _refuse(
            node,
            "control flow is not delegated as a whole",
            "nothing to do: ExecuTorch runs it, and its branches are delegated",
        )
    return _refuse(
        node,
        "control flow is not delegated as a whole, and ExecuTorch, which would run it, has no "
        "such construct: to_executorch() will fail",
        f"write the model with {', '.join(_EXECUTORCHS_CONTROL_FLOW)}, or call the body as a "
        "method of its own from a loop outside",
    )


def op_name(node: Node) -> str:
    """Qualified name of a node's op, for instance ``aten.sort.default``."""
    op = aten_op(node.target)
    return str(op) if isinstance(op, torch._ops.OpOverload) else getattr(op, "__name__", str(op))


def module_path(node: Node) -> str:
    """Where in the user's model a node comes from, with the module's class; may be empty."""
    stack = node.meta.get("nn_module_stack") or {}
    path, kind = list(stack.values())[-1] if stack else ("", "")
    kind = getattr(kind, "__name__", str(kind)).rpartition(".")[2]
    return f"{path} ({kind})" if path else kind


def source_line(node: Node) -> str:
    """The innermost line of the user's own code, or of any code where all of it is PyTorch's."""
    lines = [
        line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip()
    ]
    frames = [index for index, line in enumerate(lines) if line.startswith("File ")]
    if not frames:
        return ""
    own = [index for index in frames if not lines[index].startswith(_TORCH_FILES)]
    chosen = (own or frames)[-1]
    code = f": {lines[chosen + 1]}" if chosen + 1 < len(lines) else ""
    return lines[chosen] + code


def _is_symbolic_arithmetic(node: Node) -> bool:
    """Whether a node computes a size from sizes; generated code does that by itself."""
    value = node.meta.get("val")
    tensors = any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
    is_size = (
        "sym_size" in op_name(node) or "sym_stride" in op_name(node) or "sym_numel" in op_name(node)
    )
    return isinstance(value, torch.SymInt | int | torch.SymBool | bool) and (is_size or not tensors)


def _check_dtypes(node: Node) -> None:
    for tensor in _tensors((node, *node.all_input_nodes)):
        dtype_code(tensor.dtype, "a tensor")


def _tensors(nodes: Iterable[Node]) -> Iterator[torch.Tensor]:
    for node in nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, torch.Tensor):
                yield item
