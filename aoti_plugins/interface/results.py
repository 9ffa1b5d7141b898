"""Puts the results of a program together as the exported module returned them."""

from __future__ import annotations

import importlib
import logging
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.classes import Classes, pytree_context, pytree_functions
from aoti_plugins.interface.structure import NAMED_TUPLE, Node

logger = logging.getLogger(__name__)

Build = Callable[[list[Any]], Any]
"""Makes a part of the results from its own parts."""


class Results:
    """Makes results of one method; classes are looked for once.

    Where a class cannot be had, its place is taken by a ``SimpleNamespace`` with the same fields,
    by a named tuple of the same name, or, where the program does not know the fields, by a tuple; a
    warning says so.

    Args:
        node: the structure.
        classes: finds the classes.
        what: whose results these are, for messages.
    """

    def __init__(self, node: Node, classes: Classes, what: str) -> None:
        self.num_leaves = node.num_leaves
        self._classes = classes
        self._what = what
        self._make = self._maker(node)

    def __call__(self, leaves: list[Any]) -> Any:
        """Put results together.

        Args:
            leaves: ``num_leaves`` of them.

        Raises:
            ProgramError: a class does not take them.
        """
        return self._make(iter(leaves))

    def _maker(self, node: Node) -> Callable[[Iterator[Any]], Any]:
        if not node.kind:
            return next
        build, makers = self._builder(node), [self._maker(child) for child in node.children]
        return lambda leaves: build([make(leaves) for make in makers])

    def _builder(self, node: Node) -> Build:
        name = node.class_name
        if not name:
            return _container(node)
        found, reason = self._classes.find(name)
        if found is None:
            return self._without_class(node, reason)
        build = _named_tuple(found) if node.kind == NAMED_TUPLE else _instance(found, node)
        if build is None:
            return self._without_class(node, "PyTorch's pytree does not know how to make it")
        return self._explained(build, name)

    def _explained(self, build: Build, name: str) -> Build:
        def explained(values: list[Any]) -> Any:
            try:
                return build(values)
            except Exception as error:  # of a class that is not ours
                raise ProgramError(
                    f"{self._what} ran, but {name} cannot be made of its results "
                    f"({type(error).__name__}: {error}); is it another version of the class?"
                ) from error

        return explained

    def _without_class(self, node: Node, reason: str) -> Build:
        name, fields = node.class_name, self._classes.fields(node.class_name)
        keys = node.keys
        if node.kind == NAMED_TUPLE and len(fields) == len(node.children):
            instead, build = "named tuples", _named_tuple(_own_named_tuple(name, fields))
        elif keys is not None:
            instead, build = "types.SimpleNamespace", _namespace(keys, node.fields_of_none)
        else:
            instead, build = "tuples", tuple
        logger.warning(
            "%s returns a %s, which cannot be had (%s); its values come as %s. Import the module "
            "that defines it, or name it: module(classes={%r: ...})",
            *(self._what, name, reason, instead, name),
        )
        return build


def _container(node: Node) -> Build:
    """For containers of Python's and PyTorch's own."""
    keys = node.keys or ()
    if node.kind == "builtins.tuple" or node.kind == "torch.Size":
        return tuple
    if node.kind == "collections.deque":
        length = node.context if isinstance(node.context, int) else None
        return lambda values: deque(values, length)
    if node.kind == "collections.OrderedDict":
        return lambda values: OrderedDict(zip(keys, values, strict=True))
    if node.kind == "collections.defaultdict":
        factory = _factory(node.context)
        return lambda values: defaultdict(factory, zip(keys, values, strict=True))
    if node.keys is not None:
        return lambda values: dict(zip(keys, values, strict=True))
    return list


def _factory(context: Any) -> Any:
    """What a ``defaultdict`` makes of a missing key: one of Python's own types, or nothing."""
    if context.get("default_factory_module") != "builtins":
        return None
    found = getattr(importlib.import_module("builtins"), str(context["default_factory_name"]), None)
    return found if found in (dict, float, int, list, set, str, tuple) else None


def _instance(found: type, node: Node) -> Build | None:
    functions = pytree_functions(found)
    if functions is not None:
        context = pytree_context(found, node)
        return lambda values: functions.unflatten_fn(values, context)
    if node.keys is None:
        return None
    keys, others = node.keys, dict.fromkeys(node.fields_of_none)
    return lambda values: found(**dict(zip(keys, values, strict=True)), **others)


def _named_tuple(found: Any) -> Build:
    return lambda values: found(*values)


def _own_named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    make: Any = namedtuple  # of a name that is known only now
    last = name.rpartition(".")[2]
    return make(last if last.isidentifier() else "Results", fields, rename=True)


def _namespace(keys: tuple[Any, ...], others: tuple[str, ...]) -> Build:
    def build(values: list[Any]) -> Any:
        named = zip(map(str, keys), values, strict=True)
        return SimpleNamespace(**dict(named), **dict.fromkeys(others))

    return build
