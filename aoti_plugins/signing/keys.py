"""Keys of Ed25519, from the PEM files that OpenSSL and others write."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from aoti_plugins.errors import SignatureError
from aoti_plugins.payload.signatures import KEY_NBYTES

PublicKey: TypeAlias = "str | os.PathLike[str] | bytes"
"""A path of a PEM file, whose keys are all meant, or the 32 bytes of a key."""

_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----(.*?)(?:-----END \1-----|\Z)", re.DOTALL)
_PREFIX = bytes.fromhex("302a300506032b6570032100")  # of an Ed25519 key in DER, RFC 8410


def public_keys(given: Iterable[PublicKey]) -> tuple[bytes, ...]:
    """The keys, 32 bytes each, in order and without repeats.

    Raises:
        SignatureError: there is none, or a file cannot be read, is cut off, or holds none or other
            ones.
    """
    if isinstance(given, (str, bytes, os.PathLike)):
        raise SignatureError(f"expected a list of keys, found {given!r}")
    found = [key for one in given for key in _keys_of(one)]
    if not found:
        raise SignatureError("no key is given, and then no program could be run; give at least one")
    return tuple(dict.fromkeys(found))


def _keys_of(given: PublicKey) -> list[bytes]:
    if not isinstance(given, bytes):
        return _keys_of_file(Path(given))
    if len(given) != KEY_NBYTES:
        raise SignatureError(f"a key has {KEY_NBYTES} bytes, found {len(given)}")
    return [given]


def _keys_of_file(path: Path) -> list[bytes]:
    blocks = [match.groups() for match in _PEM.finditer(_read(path))]
    if any(kind.endswith(b"PRIVATE KEY") for kind, _ in blocks):
        raise SignatureError(
            f"key file {str(path)!r} holds a private key, which only who signs should have; get "
            "the public one: openssl pkey -in private.pem -pubout -out public.pem"
        )
    keys = [_decoded(text, path) for kind, text in blocks if kind == b"PUBLIC KEY"]
    if not keys:
        raise SignatureError(
            f"key file {str(path)!r} holds no public key: '-----BEGIN PUBLIC KEY-----' is missing"
        )
    return keys


def _decoded(text: bytes, path: Path) -> bytes:
    try:
        der = base64.b64decode(b"".join(text.split()), validate=True)
    except binascii.Error as error:
        raise SignatureError(f"key file {str(path)!r} is cut off or no PEM: {error}") from error
    if len(der) != len(_PREFIX) + KEY_NBYTES or not der.startswith(_PREFIX):
        raise SignatureError(
            f"key file {str(path)!r} is cut off, or holds a public key that is not of Ed25519"
        )
    return der[len(_PREFIX) :]


@dataclass(frozen=True)
class Signer:
    """A private key that signs.

    Attributes:
        public: its public key, 32 bytes.
        sign: returns the 64 bytes of a signature over a message.
    """

    public: bytes
    sign: Callable[[bytes], bytes]

    @classmethod
    def from_file(cls, path: Path, passphrase: bytes | None = None) -> Signer:
        """Read a private key from a PEM file.

        Raises:
            SignatureError: ``cryptography`` is not installed; the file cannot be read, is damaged,
                holds no private key of Ed25519, or the passphrase is missing or wrong.
        """
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import (
                Encoding,
                PublicFormat,
                load_pem_private_key,
            )
        except ImportError as error:
            raise SignatureError(
                "signing needs PyPI's package cryptography: pip install 'aoti-plugins[sign]'"
            ) from error
        try:
            key = load_pem_private_key(_read(path), passphrase)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise SignatureError(
                f"key file {str(path)!r} cannot be used: {error}. Expected a private key in PEM; "
                "make one with: openssl genpkey -algorithm ed25519 -out private.pem"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise SignatureError(f"key file {str(path)!r} holds a key that is not of Ed25519")
        public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return cls(public, key.sign)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise SignatureError(f"key file {str(path)!r} cannot be read: {reason}") from error
