"""``docs/payload.md`` names every field, every dtype code and every kind of the format."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from aoti_plugins import payload
from aoti_plugins.dtypes import BY_CODE

TEXT = (Path(__file__).parents[2] / "docs" / "payload.md").read_text()


@pytest.mark.parametrize(
    "record",
    [
        payload.Payload,
        payload.TargetArtifact,
        payload.KernelRef,
        payload.LibraryRef,
        payload.StorageRef,
        payload.ConstantRef,
        payload.ValueSpec,
        payload.PayloadSignature,
    ],
)
def test_every_field_is_documented_in_order(record: type) -> None:
    at = -1
    fields = dataclasses.fields(record)  # type: ignore[arg-type]
    header = {"version": 0, "flags": 1}
    fields = tuple(one for one in fields if one.name != "artifact_crc32")  # of version 1
    for field in sorted(fields, key=lambda one: header.get(one.name, 2)):
        found = TEXT.find(f"| `{field.name}` |", at + 1)
        assert found > at, f"{record.__name__}.{field.name}"
        at = found if record is payload.Payload else at


def test_every_dtype_code_is_documented() -> None:
    flat = " ".join(TEXT.split())
    for dtype in BY_CODE.values():
        assert f"{dtype.name} {dtype.code}" in flat


def test_every_kind_is_documented() -> None:
    for constant_kind in payload.ConstantKind:
        spoken = constant_kind.name.lower().replace("_", " ")
        spoken = "constant tensor" if spoken == "tensor" else spoken
        assert f"{int(constant_kind)} {spoken}" in TEXT
    for value_kind in payload.ValueKind:
        assert f"{int(value_kind)} {value_kind.name.lower()}" in TEXT
