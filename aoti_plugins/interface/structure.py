"""Structures of arguments and results, as PyTorch's ``treespec_dumps`` writes them.

ExecuTorch keeps them in every program. Read here without torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aoti_plugins.errors import ProgramError

_PROTOCOL = 1
NAMED_TUPLE = "collections.namedtuple"
SEQUENCES = (
    "builtins.tuple",
    "builtins.list",
    "collections.deque",
    "torch.Size",
    "torch.fx.immutable_collections.immutable_list",
)
MAPPINGS = (
    "builtins.dict",
    "collections.OrderedDict",
    "collections.defaultdict",
    "torch.fx.immutable_collections.immutable_dict",
)


@dataclass(frozen=True)
class Node:
    """A part of a structure.

    Attributes:
        kind: the name that PyTorch's pytree has for the class; empty for a leaf.
        written: what it keeps of it beside the children, as it is written: text of JSON, or
            whatever the class makes of it.
        children: the parts.
    """

    kind: str = ""
    written: Any = None
    children: tuple[Node, ...] = ()

    @property
    def context(self) -> Any:
        """What is kept beside the children, if it is JSON, as most of it is."""
        if self.kind == NAMED_TUPLE or not isinstance(self.written, str):
            return self.written
        try:
            return json.loads(self.written)
        except ValueError:
            return self.written

    @property
    def num_leaves(self) -> int:
        """How many tensors and numbers there are."""
        return sum(child.num_leaves for child in self.children) if self.kind else 1

    @property
    def keys(self) -> tuple[Any, ...] | None:
        """Keys of the children, or names of the fields they are in; ``None`` if they have none."""
        context = self.context
        if self.kind == "collections.defaultdict" and isinstance(context, dict):
            context = context.get("dict_context")
        elif self._is_dataclass(context):
            context = context[0]
        if self.kind in (*SEQUENCES, NAMED_TUPLE) or not isinstance(context, list):
            return None
        return tuple(context) if len(context) == len(self.children) else None

    @property
    def fields_of_none(self) -> tuple[str, ...]:
        """Fields of a dataclass that were ``None`` and are no children."""
        context = self.context
        return tuple(context[1]) if self._is_dataclass(context) else ()

    def _is_dataclass(self, context: Any) -> bool:
        """Whether the context is that of a registered dataclass: names with values, and without."""
        return (
            bool(self.kind)
            and self.kind not in (*SEQUENCES, *MAPPINGS, NAMED_TUPLE)
            and isinstance(context, list)
            and len(context) == 2
            and all(isinstance(names, list) for names in context)
            and all(isinstance(name, str) for names in context for name in names)
            and len(context[0]) == len(self.children)
        )

    @property
    def class_name(self) -> str:
        """The pytree's name of a class that is no container of Python's or PyTorch's own."""
        if self.kind == NAMED_TUPLE:
            return str(self.written)
        return "" if self.kind in ("", *SEQUENCES, *MAPPINGS) else self.kind


def parse(text: str, what: str) -> Node:
    """Read a structure.

    Args:
        text: what ``treespec_dumps`` gave.
        what: whose it is, for the error.

    Raises:
        ProgramError: it is none, or one of a format that is not known.
    """
    try:
        protocol, root = json.loads(text)
        if protocol != _PROTOCOL:
            raise ProgramError(
                f"{what} is written in format {protocol!r}, known is {_PROTOCOL}: it takes another "
                "version of aoti_plugins, or a call by position"
            )
        return _node(root)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProgramError(
            f"{what} is damaged ({type(error).__name__}: {error}): lower the model again"
        ) from error


def _node(facts: dict[str, Any]) -> Node:
    kind = facts["type"] or ""
    if not isinstance(kind, str):
        raise TypeError(f"a type is {kind!r}")
    return Node(kind, facts["context"], tuple(map(_node, facts["children_spec"])))


def one_level(node: Node) -> str:
    """Write a node as ``treespec_dumps`` would if its children were leaves."""
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    children = [leaf] * len(node.children)
    facts = {"type": node.kind, "context": node.written, "children_spec": children}
    return json.dumps([_PROTOCOL, facts])


def paths(node: Node, path: str) -> Iterator[str]:
    """Name the leaves below ``path`` as one would reach them in Python."""
    if not node.kind:
        yield path
        return
    for step, child in zip(steps(node), node.children, strict=True):
        yield from paths(child, f"{path}{step}")


def steps(node: Node) -> list[str]:
    """How one gets from a node to its children: ``[0]``, ``['key']`` or ``.field``."""
    if node.keys is None:
        return [f"[{index}]" for index in range(len(node.children))]
    is_mapping = node.kind in MAPPINGS
    return [f"[{key!r}]" if is_mapping else f".{key}" for key in node.keys]
