"""The golden payload: Python writes it byte for byte, and reads back what it wrote."""

from __future__ import annotations

import dataclasses
import runpy
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from aoti_plugins.errors import PayloadError
from aoti_plugins.payload import ConstantKind, Payload, ValueKind, decode, encode
from aoti_plugins.payload.signatures import BLOCK_NBYTES

DATA = Path(__file__).parents[1] / "data"
GOLDEN_BYTES = (DATA / "golden_payload.bin").read_bytes()
GOLDEN: Payload = runpy.run_path(str(DATA / "write_golden_payload.py"))["GOLDEN"]


def test_encode_gives_the_golden_file() -> None:
    assert encode(GOLDEN) == GOLDEN_BYTES


def test_decode_gives_the_golden_payload() -> None:
    assert decode(GOLDEN_BYTES) == GOLDEN


def test_decode_reads_version_1() -> None:
    """As then: no SHA-256, a CRC-32 of the code, no signatures, no buffers of a delegate's own."""
    old = decode((DATA / "golden_payload_1.bin").read_bytes())
    assert old.version == 1
    assert [target.artifact_crc32 for target in old.targets] == [0xDEADBEEF, 1]
    targets = tuple(
        dataclasses.replace(target, artifact_sha256=b"", artifact_crc32=crc, kernels=())
        for target, crc in zip(GOLDEN.targets, (0xDEADBEEF, 1), strict=True)
    )
    storages = tuple(dataclasses.replace(storage, sha256=b"") for storage in GOLDEN.storages)
    constants = tuple(c for c in GOLDEN.constants if c.kind is not ConstantKind.OWN_BUFFER)
    assert old == dataclasses.replace(
        GOLDEN, version=1, targets=targets, storages=storages, constants=constants, signatures=()
    )
    with pytest.raises(PayloadError, match=r"artifact_sha256 is b'', expected 32 bytes"):
        encode(old)


def test_decode_reads_version_2() -> None:
    """As then: nothing about kernels."""
    old = decode((DATA / "golden_payload_2.bin").read_bytes())
    targets = tuple(dataclasses.replace(target, kernels=()) for target in GOLDEN.targets)
    assert old == dataclasses.replace(GOLDEN, version=2, targets=targets)


def test_two_kernels_of_one_name_are_refused() -> None:
    target = GOLDEN.targets[0]
    twice = dataclasses.replace(target, kernels=(target.kernels[0], target.kernels[0]))
    with pytest.raises(PayloadError, match=r"kernels\[1\].name at byte .*listed twice"):
        encode(dataclasses.replace(GOLDEN, targets=(twice,)))


def test_decode_accepts_any_buffer() -> None:
    assert decode(memoryview(GOLDEN_BYTES)) == GOLDEN
    assert decode(bytearray(GOLDEN_BYTES)) == GOLDEN


def test_header_layout() -> None:
    magic, version, flags, total, body, header = struct.unpack("<8sIIQII", GOLDEN_BYTES[:32])
    assert (magic, version, flags, total) == (b"AOTIPLUG", 3, 2, len(GOLDEN_BYTES))
    assert body == zlib.crc32(GOLDEN_BYTES[32:-BLOCK_NBYTES])
    assert header == zlib.crc32(GOLDEN_BYTES[:28])


def test_golden_payload_covers_every_kind_and_leaves_no_list_empty() -> None:
    assert {constant.kind for constant in GOLDEN.constants} == set(ConstantKind)
    assert {value.kind for value in GOLDEN.inputs} == set(ValueKind)
    for field in dataclasses.fields(Payload):
        assert getattr(GOLDEN, field.name)


def test_imports_neither_torch_nor_executorch() -> None:
    check = (
        "import sys, aoti_plugins.payload; "
        "sys.exit(any(name.split('.')[0] in ('torch', 'executorch') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def replaced_constant(**changes: object) -> Payload:
    first = dataclasses.replace(GOLDEN.constants[0], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(GOLDEN, constants=(first, *GOLDEN.constants[1:]))


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (dataclasses.replace(GOLDEN, device=1), r"device is 1, expected a str"),
        (dataclasses.replace(GOLDEN, device="a\0b"), r"NUL"),
        (dataclasses.replace(GOLDEN, method="\ud800"), r"no UTF-8 form"),
        (replaced_constant(storage=-1), r"constants\[0\].storage is -1, which is not a u32"),
        (replaced_constant(storage=3), r"index 3 is out of range, 3 storages"),
        (replaced_constant(sizes=(2**63, 1)), r"constants\[0\].sizes\[0\] is .* not a i64"),
        (replaced_constant(dtype=8), r"dtype code 8 is not known"),
        (replaced_constant(sizes=[4, 6]), r"use tuples"),
        (dataclasses.replace(GOLDEN, targets=()), r"at least one target"),
        (dataclasses.replace(GOLDEN, version=1), r"reading back what was written"),
        (dataclasses.replace(GOLDEN, signatures=GOLDEN.signatures[:1] * 2), r"two are by one key"),
    ],
)
def test_encode_refuses_what_a_reader_would_refuse(payload: Payload, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        encode(payload)
