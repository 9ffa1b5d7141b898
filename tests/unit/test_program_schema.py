"""The runtime's reader of programs has the fields that ExecuTorch's schemas have."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import executorch
import pytest
from support import ROOT

RUNNER = ROOT / "native" / "src" / "runner"
SCHEMAS = ("schema/program.fbs", "extension/flat_tensor/serialize/flat_tensor.fbs")


def wheel(path: str) -> Path:
    return Path(executorch.__path__[0]) / path


def snake(name: str) -> str:
    """``BackendDelegate`` in snake case; ``EValue`` is one word."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def schema_fields(path: str) -> dict[str, dict[str, int]]:
    """Return the number of each field of each table. A union takes two: its type, and itself."""
    text = re.sub(r"//[^\n]*", "", wheel(path).read_text())
    unions = set(re.findall(r"union (\w+)", text))
    tables: dict[str, dict[str, int]] = {}
    for name, body in re.findall(r"table (\w+) \{(.*?)\}", text, re.DOTALL):
        fields = tables.setdefault(snake(name), {})
        for field, kind in re.findall(r"(\w+)\s*:\s*(\[?\w+(?:\.\w+)?\]?)", body):
            if kind in unions:
                fields[f"{field}_type"] = len(fields)
            fields[field] = len(fields)
    return tables


def our_fields() -> list[tuple[str, str, int]]:
    text = (RUNNER / "program_schema.h").read_text()
    return [
        (table.rstrip("_"), name, int(number))
        for table, number, name in re.findall(r"\nAOTIP_FIELD\((\w+), (\d+), (\w+)\)", text)
    ]


def test_fields() -> None:
    program, data = map(schema_fields, SCHEMAS)
    ours = our_fields()
    assert len(ours) > 40
    for table, name, number in ours:
        found = {tables[table][name] for tables in (program, data) if name in tables.get(table, {})}
        assert found == {number}, f"{table}.{name}"


@pytest.mark.parametrize("union", ["KernelTypes", "InstructionArguments"])
def test_unions(union: str) -> None:
    members = re.search(rf"union {union} \{{(.*?)\}}", wheel(SCHEMAS[0]).read_text(), re.DOTALL)
    ours = re.search(
        rf"enum class {union} .*?\{{(.*?)\}}", (RUNNER / "program_schema.h").read_text(), re.DOTALL
    )
    assert members is not None
    assert ours is not None
    expected = [f"k{name}" for name in re.findall(r"\w+", members[1])]
    assert re.findall(r"k\w+", ours[1]) == expected
    assert f"{expected[0]} = 1" in ours[1]


def test_lists_have_their_items_first() -> None:
    """All lists are read as if they were tensor lists."""
    tables = schema_fields(SCHEMAS[0])
    for kind in ("int", "double", "bool", "tensor", "optional_tensor"):
        assert tables[f"{kind}_list"] == {"items": 0}


def test_kernel_signatures() -> None:
    """The list of what kernels take is the one of the executorch that is installed."""
    path = ROOT / "native" / "tools" / "make_kernel_signatures.py"
    spec = importlib.util.spec_from_file_location("make_kernel_signatures", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.text() == (RUNNER / "kernel_signatures.inc").read_text()
