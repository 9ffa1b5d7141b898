"""What a program says about how a method is called, beside the structures that ExecuTorch keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aoti_plugins.errors import ProgramError

VERSION = 1
_CONSTANTS = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class InterfaceValue:
    """One tensor or number that a method takes or gives.

    Attributes:
        name: the parameter and the path in it, such as ``"batch['ids']"``; empty for results.
        dtype: PyTorch's name of the element type; empty if it is not a tensor.
        bounds: smallest and largest size of each dimension, as exported; ``None``: no bound.
        is_constant: it is no tensor, and the program has one value for it.
        constant: that value.
    """

    name: str = ""
    dtype: str = ""
    bounds: tuple[tuple[int, int | None], ...] = ()
    is_constant: bool = False
    constant: str | int | float | bool | None = None

    def __str__(self) -> str:
        what = repr(self.constant) if self.is_constant else type_text(self.dtype, self.bounds)
        return f"{self.name}: {what}" if self.name else what


@dataclass(frozen=True)
class ClassPlace:
    """Where a class is that arguments or results are instances of.

    Attributes:
        module: the module that defines it.
        name: its name there, with those of classes around it.
        fields: of a ``NamedTuple``, which ExecuTorch does not keep.
    """

    module: str
    name: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Interface:
    """How one method is called.

    Attributes:
        parameters: names of the arguments that it was exported with, those by position first.
        inputs: what it takes, in the order in which the program does.
        outputs: what it returns, without the new values of inputs.
        written: which inputs it writes to, by index, in the order of the outputs that say so.
        classes: by the name that PyTorch's pytree gives them.
    """

    parameters: tuple[str, ...] = ()
    inputs: tuple[InterfaceValue, ...] = ()
    outputs: tuple[InterfaceValue, ...] = ()
    written: tuple[int, ...] = ()
    classes: Mapping[str, ClassPlace] = field(default_factory=dict)

    def __str__(self) -> str:
        takes, gives = (", ".join(map(str, values)) for values in (self.inputs, self.outputs))
        return f"({takes}) -> ({gives})"


def type_text(dtype: str, bounds: tuple[tuple[int, int | None], ...]) -> str:
    """Write what a tensor is: ``float32[0..8, 64]``."""
    return f"{dtype}[{', '.join(_sizes_text(low, high) for low, high in bounds)}]"


def _sizes_text(low: int, high: int | None) -> str:
    if low == high:
        return str(low)
    return f"{low}.." if high is None else f"{low}..{high}"


def encode(interface: Interface) -> bytes:
    """Write it as JSON. Read by ``decode``."""
    facts = {
        "version": VERSION,
        "parameters": interface.parameters,
        "inputs": list(map(_value_facts, interface.inputs)),
        "outputs": list(map(_value_facts, interface.outputs)),
        "written": interface.written,
        "classes": {key: _place_facts(place) for key, place in interface.classes.items()},
    }
    return json.dumps(facts, separators=(",", ":")).encode()


def decode(data: bytes) -> Interface | None:
    """Read what ``encode`` wrote.

    Returns:
        ``None`` for that of another version, by which nothing is known of it.

    Raises:
        ProgramError: it is damaged.
    """
    try:
        facts = json.loads(data)
        if facts["version"] != VERSION:
            return None
        return Interface(
            parameters=tuple(_texts(facts["parameters"])),
            inputs=tuple(map(_value, facts["inputs"])),
            outputs=tuple(map(_value, facts["outputs"])),
            written=tuple(_numbers(facts["written"])),
            classes={str(key): _place(place) for key, place in facts["classes"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ProgramError(
            f"what the program says of its inputs is damaged ({what}): lower the model again"
        ) from error


def _value_facts(value: InterfaceValue) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": value.name} if value.name else {}
    if value.is_constant:
        return {**facts, "constant": value.constant}
    return {**facts, "dtype": value.dtype, "bounds": value.bounds} if value.dtype else facts


def _value(facts: dict[str, Any]) -> InterfaceValue:
    (name,) = _texts([facts.get("name", "")])
    if "constant" in facts:
        constant = facts["constant"]
        if not isinstance(constant, _CONSTANTS):
            raise TypeError(f"a constant is {constant!r}")
        return InterfaceValue(name, is_constant=True, constant=constant)
    (dtype,) = _texts([facts.get("dtype", "")])
    return InterfaceValue(name, dtype, tuple(map(_size, facts.get("bounds", ()))))


def _size(pair: Any) -> tuple[int, int | None]:
    low, high = pair
    (smallest, *_) = _numbers([low, *([] if high is None else [high])])
    return smallest, high


def _place_facts(place: ClassPlace) -> dict[str, Any]:
    facts: dict[str, Any] = {"module": place.module, "name": place.name}
    return {**facts, "fields": place.fields} if place.fields else facts


def _place(facts: dict[str, Any]) -> ClassPlace:
    module, name, *fields = _texts([facts["module"], facts["name"], *facts.get("fields", ())])
    return ClassPlace(module, name, tuple(fields))


def _texts(values: Any) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"found {value!r}, expected text")
        yield value


def _numbers(values: Any) -> Iterator[int]:
    for value in values:
        if type(value) is not int or value < 0:
            raise TypeError(f"found {value!r}, expected a number")
        yield value
