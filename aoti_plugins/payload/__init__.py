"""The payload: what a lowered partition stores in the program's ``processed_bytes``.

``contents.py`` says what is in it, ``codec.py`` turns that into bytes and back (``header.py``,
``wire.py`` and ``signatures.py`` are its parts). Neither torch nor executorch is imported.
"""

from __future__ import annotations

from aoti_plugins.payload.codec import decode, encode
from aoti_plugins.payload.contents import (
    DIGEST_NBYTES,
    RANK_KEY,
    TABLE_KEY,
    UNBOUNDED,
    ArtifactKind,
    ConstantKind,
    ConstantRef,
    KernelRef,
    LibraryRef,
    Payload,
    StorageRef,
    TargetArtifact,
    ValueKind,
    ValueSpec,
)
from aoti_plugins.payload.header import PayloadFlag
from aoti_plugins.payload.signatures import PayloadSignature

__all__ = [
    "DIGEST_NBYTES",
    "RANK_KEY",
    "TABLE_KEY",
    "UNBOUNDED",
    "ArtifactKind",
    "ConstantKind",
    "ConstantRef",
    "KernelRef",
    "LibraryRef",
    "Payload",
    "PayloadFlag",
    "PayloadSignature",
    "StorageRef",
    "TargetArtifact",
    "ValueKind",
    "ValueSpec",
    "decode",
    "encode",
]
