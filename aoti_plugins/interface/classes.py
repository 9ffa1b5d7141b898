"""Finds the classes that a program's arguments and results are instances of."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from typing import Any

from aoti_plugins.interface.contents import ClassPlace
from aoti_plugins.interface.structure import Node, one_level


class Classes:
    """Looks classes up: those that were given, then PyTorch's pytree, then by importing them.

    Args:
        given: classes by the name that a program has for them.
        places: where a program says that they are.
    """

    def __init__(self, given: Mapping[str, type], places: Mapping[str, ClassPlace]) -> None:
        self._given = given
        self._places = places

    def fields(self, name: str) -> tuple[str, ...]:
        """The fields of a named tuple, as far as the program has them."""
        place = self._places.get(name)
        return place.fields if place else ()

    def find(self, name: str) -> tuple[type | None, str]:
        """Find a class.

        Returns:
            The class and ``""``, or ``None`` and why not.
        """
        if name in self._given:
            return self._given[name], ""
        registered = _registered(name)
        if registered is not None:
            return registered, ""
        module, _, last = name.rpartition(".")
        place = self._places.get(name) or ClassPlace(module, last)
        try:
            return _imported(place), ""
        except Exception as error:  # whatever a module raises while it is imported
            return None, f"{type(error).__name__}: {error}"


def pytree_functions(found: type) -> Any:
    """How PyTorch takes a class apart and puts it together; ``None`` where it does not.

    Nor where the class has no name of its own there, by which its context could be read.
    """
    pytree = sys.modules.get("torch.utils._pytree")
    written = pytree and pytree.SUPPORTED_SERIALIZED_TYPES.get(found)
    if not pytree or not written or _registered(written.serialized_type_name) is not found:
        return None
    return pytree.SUPPORTED_NODES.get(found)


def pytree_context(found: type, node: Node) -> Any:
    """What PyTorch's pytree keeps of a node beside its children; the class is registered there."""
    pytree = sys.modules["torch.utils._pytree"]
    name = pytree.SUPPORTED_SERIALIZED_TYPES[found].serialized_type_name
    return pytree.treespec_loads(one_level(dataclasses.replace(node, kind=name))).context


def _registered(name: str) -> type | None:
    pytree = sys.modules.get("torch.utils._pytree")
    return None if pytree is None else pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)


def _imported(place: ClassPlace) -> type:
    """Import a class; only one that holds named values.

    Raises:
        Exception: there is none.
    """
    if not place.module:
        raise ImportError("its module is not known")
    found: Any = importlib.import_module(place.module)
    for part in place.name.split("."):
        found = getattr(found, part)
    if not isinstance(found, type) or not _holds_values(found):
        raise TypeError(f"{place.module}.{place.name} is no dataclass and no named tuple")
    return found


def _holds_values(found: type) -> bool:
    is_named_tuple = issubclass(found, tuple) and hasattr(found, "_fields")
    return is_named_tuple or dataclasses.is_dataclass(found) or pytree_functions(found) is not None
