"""What in a program takes rows of a table by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from aoti_plugins.lowering.added_nodes import call

_aten = torch.ops.aten
_INTEGERS = (torch.int32, torch.int64)


@dataclass(frozen=True)
class Rows:
    """Rows of a table, one for each of some numbers.

    Attributes:
        table: what they are taken of; numbers count along its first dim.
        numbers: which, a tensor of integers.
        node: gives them, ``[*numbers, ...]``.
    """

    table: Node
    numbers: Node
    node: Node

    @property
    def may_be_negative(self) -> bool:
        """Whether numbers below 0 count from the end; else they are out of range."""
        return self.node.target is _aten.index.Tensor

    def of(self, table: Node, dim: int = 0) -> Node:
        """The same rows of another table, which count along one of its two dims.

        Args:
            table: has as many rows.
            dim: 0 or 1.

        Returns:
            A new node in front of this one: ``[*numbers, columns]``, or ``[columns, *numbers]``.
        """
        if dim == 0:
            args = tuple(table if one is self.table else one for one in self.node.args)
            return call(self.node, self.node.target, *args, **self.node.kwargs)
        return call(self.node, _aten.index.Tensor, table, [None, self.numbers])


def rows_of(node: Node) -> Rows | None:
    """The rows that a node takes of a table of two dims."""
    numbers: Any = None
    if node.target is _aten.embedding.default:
        numbers = node.args[1]
    elif node.target is _aten.index_select.default and node.args[1] in (0, -2):
        numbers = node.args[2]
    elif node.target is _aten.index.Tensor:
        first, *others = list(node.args[1])
        numbers = first if all(one is None for one in others) else None
    table: Any = node.args[0] if node.args else None
    if not _is_tensor(numbers) or not _is_tensor(table) or numbers is table:
        return None
    if numbers.meta["val"].dtype not in _INTEGERS or table.meta["val"].dim() != 2:
        return None
    return Rows(table, numbers, node)


def _is_tensor(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(node.meta.get("val"), Tensor)
