"""Changed payloads: every byte counts, and no input makes the reader fail otherwise."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoti_plugins.dtypes import BY_CODE
from aoti_plugins.errors import PayloadError
from aoti_plugins.payload import (
    ArtifactKind,
    ConstantKind,
    ConstantRef,
    LibraryRef,
    Payload,
    StorageRef,
    TargetArtifact,
    ValueKind,
    ValueSpec,
    decode,
    encode,
)
from aoti_plugins.payload.signatures import BLOCK_NBYTES, block

GOLDEN_BYTES = (Path(__file__).parents[1] / "data" / "golden_payload.bin").read_bytes()


def test_any_changed_byte_is_noticed() -> None:
    generator = random.Random(0)
    for offset, byte in enumerate(GOLDEN_BYTES):
        others = [value for value in range(256) if value != byte]
        for value in generator.sample(others, 4):
            data = GOLDEN_BYTES[:offset] + bytes([value]) + GOLDEN_BYTES[offset + 1 :]
            with pytest.raises(PayloadError):
                decode(data)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PayloadError):
        decode(data)


@settings(max_examples=300)
@given(st.integers(0, len(GOLDEN_BYTES) - 33 - BLOCK_NBYTES), st.binary(min_size=1, max_size=8))
def test_a_changed_body_with_right_checksums_decodes_or_is_refused(at: int, new: bytes) -> None:
    body = bytearray(GOLDEN_BYTES[32:-BLOCK_NBYTES])
    body[at : at + len(new)] = new
    total = 32 + len(body) + BLOCK_NBYTES
    start = b"AOTIPLUG" + struct.pack("<IIQI", 2, 0, total, zlib.crc32(body))
    data = start + struct.pack("<I", zlib.crc32(start)) + bytes(body) + block()
    try:
        payload = decode(data)
    except PayloadError:
        return
    assert encode(payload) == data


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
TARGETS = st.builds(
    TargetArtifact,
    name=TEXT,
    machine=TEXT,
    features=TEXTS,
    artifact_kind=st.just(ArtifactKind.SHARED_OBJECT),
    artifact_key=TEXT,
    artifact_nbytes=st.integers(0, 2**64 - 1),
    artifact_sha256=st.binary(min_size=32, max_size=32),
    libraries=st.lists(st.builds(LibraryRef, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    symbols=st.sets(TEXT, max_size=3).map(lambda names: tuple(sorted(names))),
)


@st.composite
def value_specs(draw: st.DrawFn) -> ValueSpec:
    kind = draw(st.sampled_from(ValueKind))
    if kind is not ValueKind.TENSOR:
        return ValueSpec(kind, 255)
    pairs = draw(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))))
    dims = tuple((min(pair), max(pair)) for pair in pairs)
    order = tuple(draw(st.permutations(range(len(dims)))))
    return ValueSpec(kind, draw(st.sampled_from(sorted(BY_CODE))), dims, order)


@st.composite
def constants(draw: st.DrawFn, name: str) -> ConstantRef:
    sizes = tuple(draw(st.lists(st.integers(0, 9), max_size=3)))
    strides = tuple(draw(st.integers(0, 99)) for _ in sizes)
    dtype = draw(st.sampled_from(sorted(BY_CODE)))
    kind = draw(st.sampled_from(ConstantKind))
    return ConstantRef(name, 0, dtype, kind, sizes, strides, draw(st.integers(0, 99)))


@st.composite
def payloads(draw: st.DrawFn) -> Payload:
    names = draw(st.sets(TEXT, max_size=3))
    return Payload(
        device=draw(TEXT),
        method=draw(TEXT),
        built_with=draw(st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple)),
        targets=draw(
            st.lists(TARGETS, min_size=1, max_size=3, unique_by=lambda t: t.name).map(tuple)
        ),
        storages=(StorageRef(draw(TEXT), 2**20, draw(st.binary(min_size=32, max_size=32))),),
        constants=tuple(draw(constants(name)) for name in sorted(names)),
        inputs=tuple(draw(st.lists(value_specs(), max_size=3))),
        outputs=tuple(draw(st.lists(value_specs(), max_size=3))),
    )


@given(payloads())
def test_round_trip(payload: Payload) -> None:
    assert decode(encode(payload)) == payload
