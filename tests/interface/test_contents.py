"""What a program says about how a method is called: written, read, refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.contents import ClassPlace, Interface, InterfaceValue, decode, encode

INTERFACE = Interface(
    parameters=("batch", "scale"),
    inputs=(
        InterfaceValue("batch['ids']", "int64", ((0, 8), (3, 3), (2, None))),
        InterfaceValue("scale", is_constant=True, constant=0.5),
    ),
    outputs=(InterfaceValue(dtype="float32"), InterfaceValue(is_constant=True)),
    written=(0,),
    classes={"m.Out": ClassPlace("m", "Outer.Out", ("a", "b"))},
)


def test_what_is_written_is_read() -> None:
    assert decode(encode(INTERFACE)) == INTERFACE
    assert decode(encode(Interface())) == Interface()


def test_numbers_that_json_lacks() -> None:
    value = InterfaceValue("x", is_constant=True, constant=math.inf)
    assert decode(encode(Interface(inputs=(value,)))) == Interface(inputs=(value,))


def test_as_text() -> None:
    assert str(INTERFACE) == "(batch['ids']: int64[0..8, 3, 2..], scale: 0.5) -> (float32[], None)"


def test_another_version_says_nothing() -> None:
    facts = json.loads(encode(INTERFACE))
    assert decode(json.dumps({**facts, "version": 2}).encode()) is None


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": [1]},
        {"parameters": 1},
        {"inputs": [{"name": 1}]},
        {"inputs": ["x"]},
        {"inputs": [{"dtype": "float32", "bounds": [[1]]}]},
        {"inputs": [{"dtype": "float32", "bounds": [[-1, 2]]}]},
        {"inputs": [{"dtype": "float32", "bounds": [[1, "2"]]}]},
        {"inputs": [{"constant": []}]},
        {"written": [True]},
        {"written": [-1]},
        {"classes": []},
        {"classes": {"m.Out": {"module": "m"}}},
        {"classes": {"m.Out": {"module": "m", "name": "Out", "fields": [0]}}},
    ],
    ids=str,
)
def test_damaged_values(change: dict[str, Any]) -> None:
    facts = json.loads(encode(INTERFACE))
    with pytest.raises(ProgramError, match="damaged"):
        decode(json.dumps({**facts, **change}).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(ProgramError, match="damaged"):
        decode(data)
