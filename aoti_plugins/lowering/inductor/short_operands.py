"""Name the operands of an op by what they are, not by all that they are computed from.

Inductor describes an op that it has no lowering for with the text of its operands, each with that
of its own operands: what two of them share is there twice, so that the text doubles with each
residual of a language model.
"""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.exc.OperatorIssue.operator_str(target, args, kwargs)",
    why="The text of an op's operands would grow exponentially with the depth of the graph.",
    until="the text of an operand does not contain that of its own operands",
)
def short_operands(original: Any, target: Any, args: Any, kwargs: Any) -> str:
    """An op and its operands, a line each, indented: dtype and sizes stand for tensors."""
    del original
    short = [f"args[{i}]: {pytree.tree_map(_short, arg)}" for i, arg in enumerate(args)]
    named = [f"{name}: {pytree.tree_map(_short, value)}" for name, value in kwargs.items()]
    return "\n".join(f"  {line}" for line in (f"target: {target}", *short, *named))


class _Text(str):
    """A string that containers show without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _short(value: Any) -> Any:
    from torch._inductor.ir import IRNode

    if not isinstance(value, IRNode):
        return value
    name = type(value).__name__
    try:
        dtype, size = value.get_dtype(), value.get_size()
    except (NotImplementedError, AttributeError):  # no tensor
        return _Text(name)
    return _Text(f"{name}({dtype}, [{', '.join(map(str, size))}])")
