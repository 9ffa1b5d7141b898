"""``aoti-plugins sign`` and ``verify``: exit codes, files, messages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from signing_support import KeyPair, Scaled, X
from support import lower

from aoti_plugins import payload as payloads
from aoti_plugins.cli.app import app
from aoti_plugins.errors import PayloadError, SignatureError
from aoti_plugins.payload.signatures import BLOCK_NBYTES, PayloadSignature, with_signature
from aoti_plugins.signing.keys import public_keys
from aoti_plugins.signing.program_file import ProgramFile

DATA = "aoti_cpu_blob.ptd"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def folder(unsigned: Path, tmp_path: Path) -> Path:
    """A copy of the unsigned programs."""
    shutil.copytree(unsigned, tmp_path / "programs")
    return tmp_path / "programs"


def test_help_names_the_commands_and_how_to_make_a_key() -> None:
    listed = invoke("--help").output
    assert "sign " in listed
    assert "verify " in listed
    assert "openssl genpkey -algorithm ed25519" in " ".join(invoke("sign", "--help").output.split())
    assert "exit status is 0" in " ".join(invoke("verify", "--help").output.split())


def test_sign_moves_no_byte(folder: Path, key: KeyPair) -> None:
    before = (folder / "inside.pte").read_bytes()
    done = invoke("sign", folder / "inside.pte", "--key", key.private)
    assert done.exit_code == 0, done.output
    after = (folder / "inside.pte").read_bytes()
    (place,) = ProgramFile(folder / "inside.pte").payloads
    (at,) = place.offsets
    end = at + len(place.data)
    assert len(after) == len(before)
    assert after[: end - BLOCK_NBYTES] == before[: end - BLOCK_NBYTES]
    assert after[end:] == before[end:]
    assert sorted(path.name for path in folder.iterdir()) == [
        DATA,
        "inside.pte",
        "inside.pte.sig",
        "outside.pte",
    ]


def test_verify_says_who_signed(folder: Path, key: KeyPair, stranger: KeyPair) -> None:
    program, output = folder / "outside.pte", folder / "signed.pte"
    files = ("--data", folder / DATA)
    before = program.read_bytes()
    assert invoke("sign", program, "--key", key.private, "-o", output, *files).exit_code == 0
    assert program.read_bytes() == before
    done = invoke("verify", output, "--key", key.public, "--whole-files", "--json", *files)
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    name = key.signer.public.hex()
    assert [one["signed_by"] for one in report["delegates"]] == [[name]]
    assert [one["signed_by"] for one in report["files"]] == [[name], [name]]
    done = invoke("verify", output, "--key", stranger.public, *files)
    assert done.exit_code == 1
    assert "none of which is trusted" in " ".join(done.output.split())
    assert invoke("verify", output, *files).exit_code == 0
    done = invoke("verify", output)
    assert done.exit_code == 1
    assert "neither in the program nor in a data file" in " ".join(done.output.split())
    assert name in invoke("inspect", output).output


def test_verify_of_an_unsigned_program(folder: Path, key: KeyPair) -> None:
    assert invoke("verify", folder / "inside.pte").exit_code == 0
    done = invoke("verify", folder / "inside.pte", "--key", key.public)
    assert done.exit_code == 1
    assert "it has no signature" in done.output
    done = invoke("verify", folder / "inside.pte", "--whole-files")
    assert done.exit_code == 1
    assert "has no signature: there is no" in " ".join(done.output.split())


def _change(path: Path, old: bytes, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(old) + at] ^= 1
    path.write_bytes(data)


WEIGHTS = Scaled().weight.detach().numpy().tobytes()


@pytest.mark.parametrize(
    ("name", "old", "what"),
    [
        ("inside.pte", b"\x7fELF", "code"),
        ("inside.pte", WEIGHTS, "weights"),
        (DATA, WEIGHTS, "weights"),
    ],
)
def test_what_is_damaged_is_noticed_and_not_signed(
    folder: Path, key: KeyPair, name: str, old: bytes, what: str
) -> None:
    program = folder / name.replace(DATA, "outside.pte")
    files = ("--data", folder / DATA)
    _change(folder / name, old, 1000)
    done = invoke("verify", program, *files)
    assert done.exit_code == 1
    assert f"{what} '" in done.output
    done = invoke("sign", program, "--key", key.private, *files)
    assert done.exit_code == 1
    assert "is not signed, because it is damaged or not complete" in done.output
    assert not list(folder.glob("*.sig"))


def test_two_keys_sign_one_after_the_other(folder: Path, key: KeyPair, stranger: KeyPair) -> None:
    program = folder / "inside.pte"
    for one in (key, stranger, key):
        assert invoke("sign", program, "--key", one.private).exit_code == 0
    report = json.loads(invoke("verify", program, "--json").output)
    both = {key.signer.public.hex(), stranger.signer.public.hex()}
    assert set(report["delegates"][0]["signed_by"]) == both
    assert report["files"][0]["signed_by"] == [key.signer.public.hex()]
    before = program.read_bytes()
    assert invoke("sign", program, "--key", stranger.private, "--file-only").exit_code == 0
    assert program.read_bytes() == before
    report = json.loads(invoke("verify", program, "--json").output)
    assert set(report["files"][0]["signed_by"]) == both


def test_there_is_room_for_four(folder: Path) -> None:
    (place,) = ProgramFile(folder / "inside.pte").payloads
    data = place.data
    for number in range(1, 5):
        data = with_signature(data, PayloadSignature(bytes([number]) * 32, bytes([1]) * 64))
    assert len(payloads.decode(data).signatures) == 4
    replaced = with_signature(data, PayloadSignature(bytes([1]) * 32, bytes([2]) * 64))
    assert len(payloads.decode(replaced).signatures) == 4
    with pytest.raises(PayloadError, match="it has 4 signatures already"):
        with_signature(data, PayloadSignature(bytes([5]) * 32, bytes([1]) * 64))


def test_a_program_without_our_delegates(tmp_path: Path, key: KeyPair) -> None:
    path = tmp_path / "other.pte"
    path.write_bytes(lower(Scaled(), (X,), partitioner=XnnpackPartitioner()).buffer)
    done = invoke("sign", path, "--key", key.private)
    assert done.exit_code == 1
    assert "has no delegate of aoti_plugins to sign" in done.output
    done = invoke("verify", path)
    assert "forward[0] (XnnpackBackend)" in done.output
    assert invoke("sign", path, "--key", key.private, "--file-only").exit_code == 0
    assert invoke("verify", path, "--key", key.public, "--whole-files").exit_code == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is damaged"),
        (b"{}", "is damaged"),
        (b"[" * 100000, "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b'{"format": "another", "version": 1}', "is 'another', version 1; this aoti_plugins"),
        (b'{"format": "aoti_plugins file signature", "version": 2}', "version 2; this"),
        (
            b'{"format": "aoti_plugins file signature", "version": 1, "nbytes": -1, "sha256": "",'
            b' "signatures": []}',
            "is damaged",
        ),
    ],
)
def test_a_sig_file_that_is_none(folder: Path, content: bytes, reason: str) -> None:
    (folder / "inside.pte.sig").write_bytes(content)
    done = invoke("verify", folder / "inside.pte", "--json")
    assert done.exit_code == 1
    (problem,) = json.loads(done.output)["files"][0]["problems"]
    assert reason in problem


def test_a_wrong_signature_of_a_file(folder: Path, key: KeyPair) -> None:
    assert invoke("sign", folder / "inside.pte", "--key", key.private).exit_code == 0
    path = folder / "inside.pte.sig"
    facts = json.loads(path.read_text())
    facts["signatures"][0]["signature"] = "00" * 64
    path.write_text(json.dumps(facts))
    done = invoke("verify", folder / "inside.pte", "--json")
    assert done.exit_code == 1
    assert "is wrong" in done.output


def test_keys_that_cannot_sign(folder: Path, key: KeyPair, tmp_path: Path) -> None:
    text = key.private.read_text()
    for content in ("", text[:50], key.public.read_text(), _key_of_another_kind()):
        (tmp_path / "key.pem").write_text(content)
        done = invoke("sign", folder / "inside.pte", "--key", tmp_path / "key.pem")
        assert done.exit_code == 1
        assert "error: key file" in done.output
    done = invoke("sign", folder / "inside.pte", "--key", tmp_path / "none.pem")
    assert "cannot be read: No such file" in done.output
    assert not list(folder.glob("*.sig"))


def _key_of_another_kind() -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_a_key_with_a_passphrase(folder: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    private, phrase = tmp_path / "key.pem", tmp_path / "phrase"
    encrypted = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")
    )
    private.write_bytes(encrypted)
    sign = ("sign", folder / "inside.pte", "--key", private)
    assert invoke(*sign).exit_code == 1
    for text, code in (("wrong\n", 1), ("open sesame\n", 0)):
        phrase.write_text(text)
        assert invoke(*sign, "--passphrase-file", phrase).exit_code == code
    phrase.write_text("")
    assert "no passphrase can be read" in invoke(*sign, "--passphrase-file", phrase).output


def test_public_keys_that_cannot_be_used(
    key: KeyPair, tmp_path: Path, make_key: Callable[[str], KeyPair]
) -> None:
    text = key.public.read_text()
    both = tmp_path / "both.pem"
    both.write_text(text + make_key("second").public.read_text())
    assert len(public_keys([both, key.public])) == 2
    assert public_keys([key.signer.public]) == (key.signer.public,)
    for content, reason in {
        "": "holds no public key",
        key.private.read_text(): "holds a private key, which only who signs should have",
        text[:60]: "is cut off",
        "\n".join(text.splitlines()[:1] + text.splitlines()[-1:]): "is cut off",
    }.items():
        (tmp_path / "key.pem").write_text(content)
        with pytest.raises(SignatureError, match=reason):
            public_keys([tmp_path / "key.pem"])
    for wrong in ([], [b"short"], key.public, b"x" * 32):
        with pytest.raises(SignatureError, match=r"expected|no key is given|has 32 bytes"):
            public_keys(wrong)


def test_places_that_cannot_be_written(folder: Path, key: KeyPair, tmp_path: Path) -> None:
    before = (folder / "inside.pte").read_bytes()
    (folder / "inside.pte.sig").mkdir()
    done = invoke("sign", folder / "inside.pte", "--key", key.private)
    assert done.exit_code == 1
    assert "cannot write" in done.output
    assert (folder / "inside.pte").read_bytes() == before
    done = invoke("sign", folder / "inside.pte", "--key", key.private, "-o", tmp_path / "no" / "x")
    assert done.exit_code == 1
    assert "cannot write" in done.output


@pytest.mark.parametrize("name", ["missing.pte", "empty.pte", "text.pte", "cut.pte"])
def test_what_is_no_program(folder: Path, key: KeyPair, name: str) -> None:
    whole = (folder / "inside.pte").read_bytes()
    contents = {"empty.pte": b"", "text.pte": b"hello, world" * 9, "cut.pte": whole[:-100]}
    if name in contents:
        (folder / name).write_bytes(contents[name])
    for arguments in (("verify", folder / name), ("sign", folder / name, "--key", key.private)):
        done = invoke(*arguments)
        assert done.exit_code == 1
        assert done.output.startswith("error: ")
    done = invoke("verify", folder / "outside.pte", "--data", folder / "inside.pte")
    assert done.exit_code == 1
    assert "cannot be read as a data file of ExecuTorch" in done.output


def test_payloads_in_the_flatbuffer_are_signed_there(tmp_path: Path, key: KeyPair) -> None:
    from executorch.exir import ExecutorchBackendConfig

    config = ExecutorchBackendConfig(extract_delegate_segments=False)
    path = tmp_path / "inline.pte"
    path.write_bytes(lower(Scaled(), (torch.ones(2, 64),), config=config).buffer)
    assert invoke("sign", path, "--key", key.private).exit_code == 0
    assert invoke("verify", path, "--key", key.public).exit_code == 0
