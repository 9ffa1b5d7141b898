"""Generate the code of a graph again where an op wants its inputs in memory.

The partitioner asks Inductor about an op whose inputs are in memory. In a whole graph an input is
often an expression that nobody has stored, and a lowering that cannot work with such a one fails
there. Then the graph is generated anew, and what ops of this kind read is stored first. The
delegate could not give the op back at that point: ExecuTorch has cut the program by then.

Patched: ``GraphLowering.call_function``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from aoti_plugins.errors import UnsupportedError
from aoti_plugins.lowering.inductor.blame import causes
from aoti_plugins.lowering.inductor.patching import inductor_lock, patch, replaced

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


@dataclass
class _Failure:
    """The innermost op whose lowering failed last."""

    node: Node | None = None
    error: Exception | None = None

    def is_of(self, error: Exception) -> bool:
        """Whether an exception was made of this one."""
        return any(one is self.error for one in causes(error))


def generate_in_steps(
    generate: Callable[[], _Result],
    is_about_an_op: Callable[[Exception], bool],
    described: Callable[[Node], str],
) -> _Result:
    """Generate, and again for each kind of op that fails until its inputs are in memory.

    Args:
        generate: generates the code of one graph, from the start each time.
        is_about_an_op: whether what it raised is about an op, and not about the machine or a
            plugin.
        described: names the user's op that a node of Inductor's graph comes from, and says what the
            user can do about it.

    Raises:
        UnsupportedError: an op cannot be generated in either way.
        Exception: what ``generate`` raised that is about no op.
    """
    in_memory: set[Any] = set()
    while True:
        with inductor_lock, inputs_in_memory(in_memory) as failure:
            try:
                return generate()
            except Exception as error:
                node = failure.node
                if node is None or not failure.is_of(error) or not is_about_an_op(error):
                    raise
                reason = next(iter(str(failure.error).splitlines()), "")
                if node.target in in_memory or not _only_reads(node.target):
                    raise UnsupportedError(
                        f"Inductor generates {node.target} by itself, and fails with it in this "
                        f"graph: {reason}\n{described(node)}"
                    ) from error
                logger.info("%s gets its inputs in memory: %s", node.target, reason)
                in_memory.add(node.target)


@patch(
    "torch._inductor.graph.GraphLowering.call_function(self, target, args, kwargs)",
    "torch._inductor.ir.ExternKernel.realize_input(x)",
    why="A lowering that cannot work with an unstored input fails the whole graph.",
    until="nodes can be handed back from preprocess",
)
def inputs_in_memory(ops: Collection[Any]) -> Iterator[_Failure]:
    """Store what these ops read before they are lowered.

    Args:
        ops: targets of nodes, none of which writes to what it reads; it may be empty.

    Yields:
        The op that failed, once one does.
    """
    from torch._inductor.graph import GraphLowering

    failure = _Failure()

    def call_function(original: Any, self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        if target in ops:
            args, kwargs = pytree.tree_map(_stored, (args, kwargs))
        try:
            return original(self, target, args, kwargs)
        except Exception as error:
            if not failure.is_of(error):
                failure.node, failure.error = self.current_node, error
            raise

    with replaced(GraphLowering, "call_function", call_function):
        yield failure


def _stored(value: Any) -> Any:
    from torch._inductor.ir import ExternKernel, TensorBox

    is_tensor = isinstance(value, TensorBox)
    return TensorBox(ExternKernel.realize_input(value)) if is_tensor else value


def _only_reads(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable
