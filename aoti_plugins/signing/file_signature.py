"""Signatures over whole files, kept beside them as ``<file>.sig``.

A payload's signature covers code and weights of one delegate. What ExecuTorch itself does in a
program, what other backends do, and which delegates a program has, only a signature over the file
covers. It is text::

    {
      "format": "aoti_plugins file signature",
      "version": 1,
      "nbytes": 123456,
      "sha256": "<64 hex digits>",
      "signatures": [{"key": "<64 hex digits>", "signature": "<128 hex digits>"}]
    }

Signed are the ASCII text ``aoti_plugins file signature 1`` with a NUL, the number of bytes as a
``u64``, little-endian, and the digest. The file's name is not: it may be renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aoti_plugins.errors import SignatureError
from aoti_plugins.payload.signatures import KEY_NBYTES, SIGNATURE_NBYTES
from aoti_plugins.signing.keys import Signer

SUFFIX = ".sig"

_FORMAT = "aoti_plugins file signature"
_VERSION = 1
_CONTEXT = b"aoti_plugins file signature 1\0"
_MOST_NBYTES = 1 << 20
_AGAIN = "Sign the file again, or get it again from who signed it."


@dataclass(frozen=True)
class FileSignature:
    """What a ``.sig`` file says.

    Attributes:
        nbytes: size of the file.
        sha256: its digest.
        signatures: of keys, 32 bytes each, 64 bytes each.
    """

    nbytes: int
    sha256: bytes
    signatures: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def message(self) -> bytes:
        """The bytes that are signed."""
        return _CONTEXT + struct.pack("<Q", self.nbytes) + self.sha256

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileSignature:
        """Describe a file, without signatures.

        Raises:
            SignatureError: it cannot be read.
        """
        digest, nbytes = hashlib.sha256(), 0
        try:
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
                    nbytes += len(block)
        except OSError as error:
            reason = error.strerror or error
            raise SignatureError(f"{os.fspath(path)!r} cannot be read: {reason}") from error
        return cls(nbytes, digest.digest())

    def signed_by(
        self, signer: Signer, others: Sequence[tuple[bytes, bytes]] = ()
    ) -> FileSignature:
        """With one more signature; one by the same key is replaced."""
        kept = tuple(one for one in others if one[0] != signer.public)
        mine = (signer.public, signer.sign(self.message))
        return FileSignature(self.nbytes, self.sha256, (*kept, mine))

    def text(self) -> str:
        """What stands in the ``.sig`` file."""
        signatures = [{"key": k.hex(), "signature": s.hex()} for k, s in self.signatures]
        facts = {
            "format": _FORMAT,
            "version": _VERSION,
            "nbytes": self.nbytes,
            "sha256": self.sha256.hex(),
            "signatures": signatures,
        }
        return json.dumps(facts, indent=2) + "\n"


def signature_path(path: str | os.PathLike[str]) -> Path:
    """Where the signature of a file is."""
    return Path(os.fspath(path) + SUFFIX)


def read_file_signature(path: str | os.PathLike[str]) -> FileSignature:
    """Read the signature beside a file; whether it is right is not checked.

    Raises:
        SignatureError: there is none, or it is damaged or of another version.
    """
    place = signature_path(path)
    try:
        with place.open("rb") as file:
            data = file.read(_MOST_NBYTES + 1)
    except FileNotFoundError as error:
        raise SignatureError(
            f"{os.fspath(path)!r} has no signature: there is no {str(place)!r}. {_AGAIN}"
        ) from error
    except OSError as error:
        raise SignatureError(f"{str(place)!r} cannot be read: {error.strerror or error}") from error
    try:
        facts = json.loads(data)
        if (facts["format"], facts["version"]) != (_FORMAT, _VERSION):
            raise SignatureError(
                f"{str(place)!r} is {facts['format']!r}, version {facts['version']!r}; this "
                f"aoti_plugins reads {_FORMAT!r}, version {_VERSION}"
            )
        nbytes = facts["nbytes"]
        if type(nbytes) is not int or not 0 <= nbytes < 2**63:
            raise ValueError(f"nbytes is {nbytes!r}")
        signatures = tuple(
            (_hex(one["key"], KEY_NBYTES), _hex(one["signature"], SIGNATURE_NBYTES))
            for one in facts["signatures"]
        )
        return FileSignature(nbytes, _hex(facts["sha256"], 32), signatures)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise SignatureError(f"{str(place)!r} is damaged ({reason}). {_AGAIN}") from error


def _hex(text: object, nbytes: int) -> bytes:
    value = bytes.fromhex(text) if isinstance(text, str) else b""
    if len(value) != nbytes:
        raise ValueError(f"expected {nbytes} bytes in hex digits, found {text!r}")
    return value
