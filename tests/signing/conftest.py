"""Keys, and programs that were signed with them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from signing_support import KeyPair, Scaled, X
from support import lower

from aoti_plugins.signing.sign import sign_program

pytest.importorskip("cryptography", reason="signing needs it: pip install 'aoti-plugins[sign]'")


@pytest.fixture(scope="session")
def make_key(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], KeyPair]:
    """``make_key("release")`` writes a new key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    folder = tmp_path_factory.mktemp("keys")

    def make(name: str) -> KeyPair:
        key = Ed25519PrivateKey.generate()
        pair = KeyPair(folder / f"{name}.pem", folder / f"{name}.pub.pem")
        pair.private.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        public = key.public_key()
        pair.public.write_bytes(
            public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        return pair

    return make


@pytest.fixture(scope="session")
def key(make_key: Callable[[str], KeyPair]) -> KeyPair:
    """The key that the tests trust."""
    return make_key("trusted")


@pytest.fixture(scope="session")
def stranger(make_key: Callable[[str], KeyPair]) -> KeyPair:
    """A key that nobody trusts."""
    return make_key("stranger")


@pytest.fixture(scope="session")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``inside.pte``, and ``outside.pte`` whose weights are in a data file."""
    folder = tmp_path_factory.mktemp("unsigned")
    (folder / "inside.pte").write_bytes(lower(Scaled(), (X,)).buffer)
    outside = lower(Scaled(), (X,), external_data=True)
    outside.write_tensor_data_to_file(str(folder))
    (folder / "outside.pte").write_bytes(outside.buffer)
    return folder


@pytest.fixture(scope="session")
def signed(unsigned: Path, key: KeyPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder, signed."""
    folder = tmp_path_factory.mktemp("signed")
    data = folder / "aoti_cpu_blob.ptd"
    shutil.copy(unsigned / data.name, data)
    sign_program(unsigned / "inside.pte", key.signer, folder / "inside.pte")
    sign_program(unsigned / "outside.pte", key.signer, folder / "outside.pte", [data])
    return folder
