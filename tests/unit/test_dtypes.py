"""The two tables of element types, Python's and the runtimes', agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from aoti_plugins.dtypes import BY_CODE, BY_NAME, dtype_name

TABLE = Path(__file__).parents[2] / "native" / "src" / "slim" / "dtypes.inc"
_ENTRY = re.compile(r"^AOTIP_DTYPE\(k\w+, (\d+), (\w+), (\d+), (true|false), (true|false)\)$", re.M)


def test_what_a_payload_knows_is_the_same_on_both_sides() -> None:
    entries = _ENTRY.findall(TABLE.read_text())
    assert len(entries) == TABLE.read_text().count("\nAOTIP_DTYPE(")
    native = {
        (int(code), name, int(nbytes))
        for code, name, nbytes, _, known in entries
        if known == "true"
    }
    assert native == {tuple(dtype) for dtype in BY_CODE.values()}


def test_names_and_sizes_are_those_of_pytorch() -> None:
    for _, name, nbytes, _, _ in _ENTRY.findall(TABLE.read_text()):
        assert getattr(torch, name).itemsize == int(nbytes), name
    assert BY_NAME["bfloat16"].code == 15
    assert dtype_name(99) == "dtype 99"
