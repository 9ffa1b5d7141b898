"""Look at a program's digests and signatures without running anything of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aoti_plugins import payload as payloads
from aoti_plugins.errors import PayloadError, SignatureError
from aoti_plugins.payload.signatures import message_to_sign
from aoti_plugins.signing.file_signature import read_file_signature, signature_path
from aoti_plugins.signing.program_file import PayloadPlace, ProgramFile


@dataclass(frozen=True)
class Checked:
    """One thing that was looked at.

    Attributes:
        name: a delegate, for instance ``"forward[0]"``, or a file.
        signed_by: public keys whose signatures are right, in hex digits.
        problems: what is wrong; empty if all is well.
    """

    name: str
    signed_by: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What ``verify_program`` found.

    Attributes:
        delegates: ours, with code and weights.
        files: the program and its data files as wholes, those with a ``.sig``.
        uncovered: delegates of other backends, which only a signature over the file covers.
    """

    delegates: tuple[Checked, ...]
    files: tuple[Checked, ...]
    uncovered: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not any(one.problems for one in (*self.delegates, *self.files))


def verify_program(
    program: Path,
    data_files: Sequence[Path] = (),
    keys: Sequence[bytes] = (),
    *,
    whole_files: bool = False,
) -> Report:
    """Compare a program with its digests, and check its signatures.

    Args:
        program: the ``.pte`` file.
        data_files: the ``.ptd`` files with its weights.
        keys: one of them has to have signed every payload, and every file that has a ``.sig``;
            without any, signatures only have to be right.
        whole_files: every file has to have a ``.sig``.

    Raises:
        ProgramError: a file is missing, or is no program or no data file.
        SignatureError: signatures cannot be checked here.
    """
    file = ProgramFile(program, data_files)
    delegates = tuple(_delegate(file, place, keys) for place in file.payloads)
    files = tuple(
        _file(path, keys)
        for path in (program, *data_files)
        if whole_files or signature_path(path).exists()
    )
    return Report(delegates, files, file.others)


def _delegate(file: ProgramFile, place: PayloadPlace, keys: Sequence[bytes]) -> Checked:
    name = ", ".join(place.where)
    try:
        payload = payloads.decode(place.data)
    except PayloadError as error:
        return Checked(name, (), (str(error),))
    pairs = [(one.key, one.signature) for one in payload.signatures]
    message = message_to_sign(place.data) if pairs else b""
    return _checked(name, pairs, message, keys, file.problems(payload))


def _file(path: Path, keys: Sequence[bytes]) -> Checked:
    from aoti_plugins.runtime.trust import check_unchanged

    try:
        signed = read_file_signature(path)
        check_unchanged(path, signed)
    except SignatureError as error:
        return Checked(str(path), (), (str(error),))
    return _checked(str(path), signed.signatures, signed.message, keys)


def _checked(
    name: str,
    signatures: Sequence[tuple[bytes, bytes]],
    message: bytes,
    keys: Sequence[bytes],
    problems: Sequence[str] = (),
) -> Checked:
    """Look at signatures over a message; other problems come before theirs."""
    from aoti_plugins.runtime.trust import is_right_signature

    right, found = [], [*problems]
    for key, signature in signatures:
        if is_right_signature(key, message, signature):
            right.append(key.hex())
        else:
            found.append(f"the signature by key {key.hex()} is wrong")
    if keys and not any(key.hex() in right for key in keys):
        count = len(signatures)
        found.append(
            f"it is signed by {count} key{'' if count == 1 else 's'}, none of which is trusted"
            if signatures
            else "it has no signature"
        )
    return Checked(name, tuple(right), tuple(found))
