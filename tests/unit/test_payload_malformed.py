"""Every malformation of a payload has its own message, which names the field and its offset."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from aoti_plugins.errors import PayloadError
from aoti_plugins.payload import (
    ArtifactKind,
    ConstantKind,
    ConstantRef,
    Payload,
    StorageRef,
    TargetArtifact,
    ValueKind,
    ValueSpec,
    decode,
    encode,
)
from aoti_plugins.payload.signatures import BLOCK_NBYTES, PayloadSignature, block

GOLDEN_BYTES = (Path(__file__).parents[1] / "data" / "golden_payload.bin").read_bytes()

# One item in every list, so that a field can be found by its distance from the start.
SMALL = Payload(
    device="cpu",
    method="m",
    built_with=(("torch", "2"),),
    targets=(
        TargetArtifact(
            "t", "x86_64", ("f",), ArtifactKind.SHARED_OBJECT, "k", 5, bytes(32), symbols=("a", "b")
        ),
    ),
    storages=(StorageRef("s", 16, bytes(32)),),
    constants=(ConstantRef("w", 0, 6, ConstantKind.PARAMETER, (2, 2), (2, 1), 0),),
    inputs=(ValueSpec(ValueKind.TENSOR, 6, ((1, 4), (2, 2)), (0, 1)),),
    outputs=(ValueSpec(ValueKind.INT, 255),),
)
SMALL_BYTES = encode(SMALL)
SMALL_BODY = SMALL_BYTES[32:-BLOCK_NBYTES]

# Byte offsets in SMALL_BYTES.
TARGET_COUNT = 32 + 7 + 5 + 4 + 9 + 5
TARGET = TARGET_COUNT + 4
ARTIFACT_KIND = TARGET + 5 + 10 + 4 + 5
STORAGE_COUNT = ARTIFACT_KIND + 4 + 5 + 8 + 32 + 4 + 4 + 5 + 5 + 4
CONSTANT = STORAGE_COUNT + 4 + 13 + 32 + 4
CONSTANT_STORAGE = CONSTANT + 5
CONSTANT_SIZES = CONSTANT_STORAGE + 12
CONSTANT_STRIDES = CONSTANT_SIZES + 4 + 16
CONSTANT_OFFSET = CONSTANT_STRIDES + 4 + 16
INPUT = CONSTANT_OFFSET + 8 + 4
INPUT_DIMS = INPUT + 8
INPUT_DIM_ORDER = INPUT_DIMS + 4 + 32
OUTPUT = INPUT_DIM_ORDER + 4 + 8 + 4


def sealed(body: bytes, *, version: int = 3, flags: int = 0, end: bytes | None = None) -> bytes:
    """Put a header with the right checksums in front of any body, and room behind it."""
    end = block() if end is None else end
    total = 32 + len(body) + len(end)
    start = b"AOTIPLUG" + struct.pack("<IIQI", version, flags, total, zlib.crc32(body))
    return start + struct.pack("<I", zlib.crc32(start)) + body + end


def patched(offset: int, replacement: bytes) -> bytes:
    """Overwrite bytes of the body and make the checksums right again."""
    data = bytearray(SMALL_BYTES)
    data[offset : offset + len(replacement)] = replacement
    return sealed(bytes(data[32:-BLOCK_NBYTES]))


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def i64(value: int) -> bytes:
    return struct.pack("<q", value)


def reencoded(change: Callable[[Payload], Payload]) -> bytes:
    """Encode a payload that breaks a rule, past the check of ``encode``."""
    from aoti_plugins.payload.codec import _Body

    return sealed(_Body().write(change(SMALL)))


def test_offsets_above_are_right() -> None:
    assert decode(patched(ARTIFACT_KIND, u32(1))) == SMALL
    assert SMALL_BYTES[CONSTANT_SIZES : CONSTANT_SIZES + 4] == u32(2)
    assert SMALL_BYTES[OUTPUT:-BLOCK_NBYTES] == u32(1) + u32(255) + u32(0) + u32(0)


HEADER_CASES = {
    "empty": (b"", r"magic at byte 0: there is no data, expected b'AOTIPLUG'"),
    "short magic": (b"AOTI", r"header at byte 4: the data ends here, a header takes 32 bytes"),
    "header cut": (SMALL_BYTES[:31], r"header at byte 31: the data ends here"),
    "foreign": (b"hello world", r"magic at byte 0: found b'hello wo', expected b'AOTIPLUG'"),
    "elf": (b"\x7fELF" + bytes(40), r"this looks like an ELF shared object"),
    "zip": (b"PK\x03\x04" + bytes(40), r"this looks like a zip archive"),
    "pte": (b"\x20\0\0\0ET12" + bytes(40), r"this looks like a whole ExecuTorch program"),
    "xnnpack": (bytes(4) + b"XH00" + bytes(40), r"this looks like a payload of the XNNPACK"),
    "upstream": (b"0f_so_blob\n1e_weights_blob", r"ExecuTorch's own AOTInductor backends"),
    "newer": (
        sealed(SMALL_BODY, version=4),
        r"version at byte 8: found 4, this reader knows 1 to 3. A newer aoti_plugins wrote the "
        r"program: pip install --upgrade aoti_plugins",
    ),
    "version 0": (sealed(SMALL_BODY, version=0), r"version at byte 8: found 0, .*No release"),
    "flags": (
        sealed(SMALL_BODY, flags=16),
        r"flags at byte 12: found 0x00000010, this reader knows 0x0000000f. "
        r"The program needs a newer reader",
    ),
    "truncated": (
        SMALL_BYTES[:-3],
        rf"total_nbytes at byte 16: the header announces {len(SMALL_BYTES)} bytes, "
        rf"{len(SMALL_BYTES) - 3} are there: the payload is truncated",
    ),
    "trailing": (SMALL_BYTES + b"xy", r"total_nbytes at byte 16: .* 2 trailing bytes"),
    "header crc": (
        SMALL_BYTES[:8] + b"\x07" + SMALL_BYTES[9:],
        r"header crc32 at byte 28: found 0x[0-9a-f]{8}, the bytes give 0x[0-9a-f]{8}",
    ),
    "body crc": (
        SMALL_BYTES[:40] + b"\xff" + SMALL_BYTES[41:],
        r"body crc32 at byte 24: found 0x[0-9a-f]{8}, the bytes give 0x[0-9a-f]{8}",
    ),
}

ONE, OTHER = (PayloadSignature(bytes([key]) * 32, bytes([9]) * 64) for key in (1, 2))
EMPTY = PayloadSignature(bytes(32), bytes(64))

SIGNATURE_CASES = {
    "signatures crc": (
        SMALL_BYTES[:-5] + b"\1" + SMALL_BYTES[-4:],
        rf"signatures crc32 at byte {len(SMALL_BYTES) - 4}: found 0x[0-9a-f]{{8}}, the bytes give",
    ),
    "signatures with a gap": (
        sealed(SMALL_BODY, end=block([ONE, EMPTY, OTHER])),
        rf"signatures at byte {len(SMALL_BYTES) - BLOCK_NBYTES}: an empty place lies before a used",
    ),
    "two signatures by one key": (
        sealed(SMALL_BODY, end=block([ONE, ONE])),
        r"signatures at byte \d+: two are by one key, expected one of each",
    ),
    "no room for signatures": (
        sealed(b"", end=b""),
        r"total_nbytes at byte 16: the header announces 32 bytes, expected at least 420",
    ),
}

BODY_CASES = {
    "body ends inside a digest": (
        sealed(SMALL_BODY[: STORAGE_COUNT - 32 + 4 + 13 + 8]),
        rf"storages at byte {STORAGE_COUNT}: 1 items are announced, which take at least 44 bytes, ",
    ),
    "string beyond the end": (
        patched(32, u32(100000)),
        r"device at byte 32: a string of 100000 bytes is announced, \d+ remain",
    ),
    "body ends inside a number": (
        sealed(SMALL_BYTES[32 : STORAGE_COUNT + 2]),
        rf"storages at byte {STORAGE_COUNT}: the body ends here: a u32 takes 4 bytes, 2 remain",
    ),
    "trailing bytes in the body": (
        sealed(SMALL_BODY + b"abc"),
        rf"body at byte {32 + len(SMALL_BODY)}: 3 bytes follow the last field, expected none",
    ),
    "count too large": (
        patched(TARGET_COUNT, u32(2**32 - 1)),
        rf"targets at byte {TARGET_COUNT}: 4294967295 items are announced, which take at least "
        r"\d+ bytes, \d+ remain",
    ),
    "bad UTF-8": (
        patched(36, b"c\xff"),
        r"device at byte 37: byte 0xff is not valid UTF-8 here",
    ),
    "NUL": (patched(36, b"c\0u"), r"device at byte 37: a string holds a NUL byte"),
    "no target": (
        reencoded(lambda p: dataclasses.replace(p, targets=())),
        rf"targets at byte {TARGET_COUNT}: the list is empty, expected at least one target",
    ),
    "duplicate target": (
        reencoded(lambda p: dataclasses.replace(p, targets=p.targets * 2)),
        r"targets\[1\].name at byte \d+: target 't' is listed twice",
    ),
    "artifact kind": (
        patched(ARTIFACT_KIND, u32(9)),
        rf"targets\[0\].artifact_kind at byte {ARTIFACT_KIND}: code 9 is not known; this reader "
        r"knows 1 \(shared_object\). If the program is newer than this aoti_plugins, upgrade",
    ),
    "symbols out of order": (
        reencoded(
            lambda p: dataclasses.replace(
                p, targets=(dataclasses.replace(p.targets[0], symbols=("b", "a")),)
            )
        ),
        r"targets\[0\].symbols at byte \d+: 'a' follows 'b', expected sorted names without repeats",
    ),
    "storage index": (
        patched(CONSTANT_STORAGE, u32(1)),
        rf"constants\[0\].storage at byte {CONSTANT_STORAGE}: index 1 is out of range, 1 storages",
    ),
    "constant dtype": (
        patched(CONSTANT_STORAGE + 4, u32(255)),
        r"constants\[0\].dtype at byte \d+: dtype code 255 is not known",
    ),
    "constant kind": (
        patched(CONSTANT_STORAGE + 8, u32(5)),
        r"constants\[0\].kind at byte \d+: code 5 is not known; this reader knows 0 \(parameter\)",
    ),
    "negative size": (
        patched(CONSTANT_SIZES + 4, i64(-2)),
        r"constants\[0\].sizes\[0\] at byte \d+: -2 is negative, expected at least 0",
    ),
    "negative stride": (
        patched(CONSTANT_STRIDES + 12, i64(-1)),
        r"constants\[0\].strides\[1\] at byte \d+: -1 is negative",
    ),
    "negative offset": (
        patched(CONSTANT_OFFSET, i64(-1)),
        rf"constants\[0\].storage_offset at byte {CONSTANT_OFFSET}: -1 is negative",
    ),
    "strides and sizes differ": (
        reencoded(
            lambda p: dataclasses.replace(
                p, constants=(dataclasses.replace(p.constants[0], strides=(1,)),)
            )
        ),
        rf"constants\[0\].strides at byte {CONSTANT_STRIDES}: 1 strides for 2 sizes",
    ),
    "beyond the storage": (
        patched(CONSTANT_OFFSET, i64(1)),
        rf"constants\[0\] at byte {CONSTANT}: 'w' reaches to byte 20 of storage 0, which has 16",
    ),
    "beyond any storage": (
        patched(CONSTANT_SIZES + 4, i64(2**63 - 1) + i64(2**63 - 1)),
        r"constants\[0\] at byte \d+: 'w' reaches to byte \d{15,} of storage 0",
    ),
    "duplicate constant": (
        reencoded(lambda p: dataclasses.replace(p, constants=p.constants * 2)),
        r"constants\[1\].fqn at byte \d+: 'w' is listed twice",
    ),
    "value kind": (
        patched(INPUT, u32(7)),
        rf"inputs\[0\].kind at byte {INPUT}: code 7 is not known",
    ),
    "input dtype": (
        patched(INPUT + 4, u32(255)),
        rf"inputs\[0\].dtype at byte {INPUT + 4}: dtype code 255 is not known",
    ),
    "dtype of an int": (
        patched(OUTPUT + 4, u32(6)),
        rf"outputs\[0\] at byte {OUTPUT}: a value of kind int has dtype 6 and 0 dims, expected "
        r"dtype 255 and none",
    ),
    "negative min": (
        patched(INPUT_DIMS + 4, i64(-1)),
        r"inputs\[0\].dims\[0\].min at byte \d+: -1 is negative",
    ),
    "min above max": (
        patched(INPUT_DIMS + 4, i64(5)),
        rf"inputs\[0\].dims\[0\] at byte {INPUT_DIMS + 4}: min 5 is above max 4",
    ),
    "dim order repeats": (
        patched(INPUT_DIM_ORDER + 4, u32(1)),
        rf"inputs\[0\].dim_order at byte {INPUT_DIM_ORDER}: \[1, 1\] is not a permutation of the 2",
    ),
}


@pytest.mark.parametrize("case", [*HEADER_CASES, *SIGNATURE_CASES, *BODY_CASES])
def test_malformation(case: str) -> None:
    data, message = {**HEADER_CASES, **SIGNATURE_CASES, **BODY_CASES}[case]
    with pytest.raises(PayloadError, match=message) as caught:
        decode(data)
    assert str(caught.value).startswith("payload: ")
    assert len(str(caught.value).rsplit(". ", 1)[1]) > 20, "says what to do"


def test_every_message_is_distinct() -> None:
    messages = [message for _, message in {**HEADER_CASES, **BODY_CASES}.values()]
    assert len(set(messages)) == len(messages)


def test_every_truncation_is_refused() -> None:
    for nbytes in range(len(GOLDEN_BYTES)):
        with pytest.raises(PayloadError):
            decode(GOLDEN_BYTES[:nbytes])


def test_every_truncated_body_is_refused_even_with_right_checksums() -> None:
    for nbytes in range(32, len(GOLDEN_BYTES) - BLOCK_NBYTES):
        with pytest.raises(PayloadError):
            decode(sealed(GOLDEN_BYTES[32:nbytes]))
