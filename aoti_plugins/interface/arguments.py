"""Takes arguments apart into what a program takes, by the structure that it was exported with."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.classes import Classes, pytree_context, pytree_functions
from aoti_plugins.interface.contents import Interface, InterfaceValue
from aoti_plugins.interface.structure import NAMED_TUPLE, SEQUENCES, Node, paths, steps

_MISSING = object()
NO_ARGUMENTS = Node("builtins.tuple", None, (Node("builtins.tuple"), Node("builtins.dict", "[]")))
"""The structure of a call without any, which programs leave out for constant methods."""


def in_order(
    names: Sequence[str],
    by_position: Sequence[Any],
    by_name: Mapping[str, Any],
    what: str,
    default: Callable[[int], Any] = lambda index: _MISSING,
) -> list[Any]:
    """Put arguments in the order of their names.

    Args:
        names: of all arguments; those that have none are empty and come by position.
        by_position: the first ones.
        by_name: the others.
        what: what is called, for messages.
        default: the value of an argument that is not given, if there is one.

    Raises:
        ProgramError: arguments are unknown, missing or given twice; the message names all of them.
    """
    if len(by_position) > len(names):
        raise ProgramError(f"{what} takes {len(names)} arguments, got {len(by_position)}")
    values = [*by_position, *[_MISSING] * (len(names) - len(by_position))]
    problems = _unknown(names, by_name)
    for index, name in enumerate(names):
        if name and name in by_name:
            if values[index] is not _MISSING:
                problems.append(f"{name!r} is given twice, by position and by name")
            values[index] = by_name[name]
        if values[index] is _MISSING:
            values[index] = default(index)
    if problems or any(value is _MISSING for value in values):
        raise _wrong_call(names, values, problems, what)
    return values


def _wrong_call(
    names: Sequence[str], values: Sequence[Any], problems: Sequence[str], what: str
) -> ProgramError:
    shown = [name or f"argument {index} (by position)" for index, name in enumerate(names)]
    missing = [one for one, value in zip(shown, values, strict=True) if value is _MISSING]
    all_problems = [*problems, *([f"missing: {', '.join(missing)}"] if missing else [])]
    return ProgramError(f"{what} takes {', '.join(shown) or 'nothing'}. {'; '.join(all_problems)}")


def _unknown(names: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    problems = []
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, filter(None, names), 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            problems.append(f"{name!r} is no argument that it was exported with{hint}")
    return problems


class Arguments:
    """Takes the arguments of one method apart.

    Args:
        node: the structure of the arguments, as ``torch.export`` has it: a tuple of those by
            position and a dict of those by name.
        interface: what else is known; empty for programs that do not say it.
        classes: finds classes.
        what: what is called, for messages.

    Raises:
        ProgramError: the structure is none of arguments.
    """

    def __init__(self, node: Node, interface: Interface, classes: Classes, what: str) -> None:
        self._what = what
        self._classes = classes
        shapes = [(child.kind, child.keys is not None) for child in node.children]
        if len(shapes) != 2 or shapes[0][0] != "builtins.tuple" or shapes[1][0] != "builtins.dict":
            raise ProgramError(f"the structure of the arguments of {what} is none of arguments")
        by_position, by_name = node.children
        self._num_by_position = len(by_position.children)
        self._nodes = [*by_position.children, *by_name.children]
        keys = tuple(map(str, by_name.keys or ()))
        named = interface.parameters
        is_named = len(named) == len(self._nodes)
        self.names = named if is_named else (*[""] * self._num_by_position, *keys)
        """Of the arguments; those by position have none in programs that do not say them."""
        self._paths = [
            path
            for index, (name, child) in enumerate(zip(self.names, self._nodes, strict=True))
            for path in paths(child, name or f"argument {index}")
        ]
        values = interface.inputs
        known = len(values) == len(self._paths)
        self._values = values if known else tuple(InterfaceValue() for _ in self._paths)

    def __call__(self, by_position: Sequence[Any], by_name: Mapping[str, Any]) -> list[Any]:
        """Take arguments apart.

        Returns:
            A value for each input of the method.

        Raises:
            ProgramError: arguments are unknown, missing or given twice, have another structure than
                those of the export, or other values where the program has constants.
        """
        if len(by_position) > self._num_by_position:
            raise ProgramError(
                f"{self._what} was exported with {self._num_by_position} arguments by position, "
                f"got {len(by_position)}; by name it takes: "
                f"{', '.join(self.names[self._num_by_position :]) or 'none'}"
            )
        given = in_order(self.names, by_position, by_name, self._what, self._constants)
        leaves: list[Any] = []
        for index, (node, value) in enumerate(zip(self._nodes, given, strict=True)):
            if isinstance(value, _Constants):
                leaves += value
            else:
                path = self.names[index] or f"argument {index}"
                self._flatten(node, value, path, leaves)
        return list(map(self._checked, range(len(leaves)), leaves))

    def _constants(self, index: int) -> Any:
        """What stands for an argument that is constant as a whole, and need not be given."""
        first = sum(node.num_leaves for node in self._nodes[:index])
        values = self._values[first : first + self._nodes[index].num_leaves]
        if not all(value.is_constant for value in values):
            return _MISSING
        return _Constants(value.constant for value in values)

    def _checked(self, index: int, value: Any) -> Any:
        """One value as the program takes it.

        Raises:
            ProgramError: it is another one than the program was made with.
        """
        known = self._values[index]
        if not known.is_constant:
            return value
        constant = known.constant
        if not _is_same(value, constant):
            raise ProgramError(
                f"{self._what}: {self._paths[index]} is {_shown(value)}, but the model was "
                f"exported with {constant!r}, which is part of the program; export it once more "
                "for another"
            )
        return None if isinstance(constant, str) else constant

    def _flatten(self, node: Node, value: Any, path: str, leaves: list[Any]) -> None:
        if not node.kind:
            leaves.append(value)
            return
        children = self._children(node, value, path)
        if len(children) != len(node.children):
            raise self._unlike(path, f"{len(node.children)} items", f"{len(children)}")
        for (step, child), part in zip(_described(node), children, strict=True):
            self._flatten(child, part, f"{path}{step}", leaves)

    def _children(self, node: Node, value: Any, path: str) -> Sequence[Any]:
        if node.kind in (*SEQUENCES, NAMED_TUPLE):
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise self._unlike(path, f"a {_last(node.kind)}", _shown(value))
            return value
        if node.keys is not None and isinstance(value, Mapping):
            return self._items(node, node.keys, value, path)
        if not node.class_name:
            raise self._unlike(path, f"a {_last(node.kind)}", _shown(value))
        if node.keys is not None:
            return self._fields(node, node.keys, value, path)
        return self._taken_apart(node, value, path)

    def _items(
        self, node: Node, keys: tuple[Any, ...], value: Mapping[Any, Any], path: str
    ) -> list[Any]:
        given = [key for key in value if value[key] is not None or key not in node.fields_of_none]
        if set(given) != set(keys):
            raise self._unlike(path, f"the keys {list(keys)}", f"{given}")
        return [value[key] for key in keys]

    def _fields(self, node: Node, keys: tuple[Any, ...], value: Any, path: str) -> list[Any]:
        missing = [key for key in keys if not hasattr(value, key)]
        if missing:
            expected = f"a {node.class_name} with {', '.join(keys)}"
            raise self._unlike(path, expected, _shown(value))
        given = [name for name in node.fields_of_none if getattr(value, name, None) is not None]
        if given:
            raise self._unlike(path, f"no {', '.join(given)}", "some")
        return [getattr(value, key) for key in keys]

    def _taken_apart(self, node: Node, value: Any, path: str) -> Sequence[Any]:
        """Let PyTorch take an object of a class of its pytree apart."""
        found, reason = self._classes.find(node.class_name)
        functions = None if found is None else pytree_functions(found)
        if found is None or functions is None:
            raise ProgramError(
                f"{self._what}: {path} was a {node.class_name} when the model was exported, which "
                f"cannot be had here ({reason or 'it is not registered with pytree'}); import the "
                "module that registers it"
            )
        if not isinstance(value, found):
            raise self._unlike(path, f"a {node.class_name}", _shown(value))
        children, context = functions.flatten_fn(value)
        expected = pytree_context(found, node)
        if context != expected:
            raise self._unlike(path, f"a {node.class_name} of {expected}", f"one of {context}")
        return list(children)

    def _unlike(self, path: str, expected: str, found: str) -> ProgramError:
        return ProgramError(
            f"{self._what}: {path} has another structure than the model was exported with: "
            f"expected {expected}, found {found}"
        )


class _Constants(list[Any]):
    """Stands for an argument that is not given: what it consists of."""


def _described(node: Node) -> list[tuple[str, Node]]:
    return list(zip(steps(node), node.children, strict=True))


def _is_same(value: Any, constant: Any) -> bool:
    """Whether a value is the program's constant; 2 is 2.0, and True is not 1."""
    kinds = {type(value), type(constant)}
    if len(kinds) > 1 and kinds != {int, float}:
        return False
    return bool(value == constant) or (value != value and constant != constant)


def _last(kind: str) -> str:
    return kind.rpartition(".")[2]


def _shown(value: object) -> str:
    if value is None or isinstance(value, (str, int, float, bool)):
        return repr(value)
    return f"a {type(value).__name__}"
