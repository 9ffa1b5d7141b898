"""The end of a payload: room for signatures over everything before it.

The room is there from the start, so that a signature is put into a finished program without moving
a byte of it. ``docs/payload.md`` describes it; the other reader is
``native/src/delegate/payload_signatures.cpp``. This module imports no cryptography: who signs gives
the bytes, and whoever checks asks for them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from aoti_plugins.errors import PayloadError
from aoti_plugins.payload.wire import DAMAGED, fail

KEY_NBYTES = 32
SIGNATURE_NBYTES = 64
MOST_SIGNATURES = 4

_SLOT_NBYTES = KEY_NBYTES + SIGNATURE_NBYTES
_SLOTS_NBYTES = MOST_SIGNATURES * _SLOT_NBYTES
BLOCK_NBYTES = _SLOTS_NBYTES + 4
"""Bytes of the room, its checksum included."""

_CONTEXT = b"aoti_plugins payload signature 1\0"


@dataclass(frozen=True)
class PayloadSignature:
    """An Ed25519 signature.

    Attributes:
        key: the public key, 32 bytes.
        signature: 64 bytes.
    """

    key: bytes
    signature: bytes


def message_to_sign(data: bytes) -> bytes:
    """What a signature of a payload signs: what it is, and all bytes before the signatures."""
    return _CONTEXT + data[:-BLOCK_NBYTES]


def with_signature(data: bytes, added: PayloadSignature) -> bytes:
    """The payload with one more signature; one by the same key is replaced.

    Args:
        data: a payload that ``decode`` reads, of version 2.
        added: the new signature.

    Raises:
        PayloadError: there are as many signatures as there is room for.
    """
    others = [one for one in read_block(data) if one.key != added.key]
    if len(others) == MOST_SIGNATURES:
        raise PayloadError(
            f"payload: it has {MOST_SIGNATURES} signatures already, and there is no room for more. "
            "Sign the program as it was before the signatures that nobody needs."
        )
    return data[:-BLOCK_NBYTES] + block([*others, added])


def block(signatures: Iterable[PayloadSignature] = ()) -> bytes:
    """The bytes of the room: signatures, zeros, checksum."""
    slots = b"".join(one.key + one.signature for one in signatures).ljust(_SLOTS_NBYTES, b"\0")
    return slots + struct.pack("<I", zlib.crc32(slots))


def read_block(data: bytes) -> tuple[PayloadSignature, ...]:
    """Read the signatures at the end of a payload of version 2; who made them is not checked.

    Raises:
        PayloadError: the room is damaged; the message names byte offset and what was found.
    """
    start = len(data) - BLOCK_NBYTES
    slots = data[start:-4]
    (stored,) = struct.unpack("<I", data[-4:])
    if stored != zlib.crc32(slots):
        found = f"found 0x{stored:08x}, the bytes give 0x{zlib.crc32(slots):08x}"
        fail("signatures crc32", len(data) - 4, found, DAMAGED)
    found_slots = [slots[at : at + _SLOT_NBYTES] for at in range(0, _SLOTS_NBYTES, _SLOT_NBYTES)]
    used = [slot for slot in found_slots if any(slot)]
    if used != found_slots[: len(used)]:
        fail("signatures", start, "an empty place lies before a used one", DAMAGED)
    signatures = tuple(PayloadSignature(slot[:KEY_NBYTES], slot[KEY_NBYTES:]) for slot in used)
    if len({one.key for one in signatures}) != len(signatures):
        fail("signatures", start, "two are by one key, expected one of each", DAMAGED)
    return signatures
