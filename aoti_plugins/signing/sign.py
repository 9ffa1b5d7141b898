"""Sign programs that are finished: signatures are filled in, no other byte changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from aoti_plugins import payload as payloads
from aoti_plugins.destinations import check_destination, write_bytes, writing
from aoti_plugins.errors import SignatureError
from aoti_plugins.payload.signatures import PayloadSignature, message_to_sign, with_signature
from aoti_plugins.signing.file_signature import FileSignature, read_file_signature, signature_path
from aoti_plugins.signing.keys import Signer
from aoti_plugins.signing.program_file import PayloadPlace, ProgramFile


def sign_program(
    program: Path, signer: Signer, output: Path, data_files: Sequence[Path] = ()
) -> list[str]:
    """Sign all payloads of a program and then the files as wholes.

    Written are ``output``, ``output.sig``, and a ``.sig`` beside each data file. Each file is there
    as a whole or not at all, the program first: an interrupt leaves a signature that does not fit.

    Args:
        program: the ``.pte`` file.
        signer: the key.
        output: where the signed program goes; may be ``program``.
        data_files: the ``.ptd`` files with its weights; they stay as they are.

    Returns:
        The delegates whose payloads were signed.

    Raises:
        SignatureError: there is nothing to sign, or code or weights are missing or damaged: who
            signs vouches for them.
        PayloadError: a payload is damaged, or has as many signatures as there is room for.
        ProgramError: a file is missing or damaged.
        DestinationError: a file cannot be written.
    """
    file = ProgramFile(program, data_files)
    if not file.payloads:
        raise SignatureError(f"{str(program)!r} has no delegate of aoti_plugins to sign")
    problems = [
        f"{place.where[0]}: {problem}"
        for place in file.payloads
        for problem in file.problems(payloads.decode(place.data))
    ]
    if problems:
        raise SignatureError(
            f"{str(program)!r} is not signed, because it is damaged or not complete:\n"
            + "\n".join(sorted(problems))
        )
    for one in (output, *map(signature_path, (output, *data_files))):
        check_destination(one)
    signed = [(place, _signed(place, signer)) for place in file.payloads]
    _write_program(program, output, signed)
    for one in (output, *data_files):
        sign_file(one, signer)
    return [where for place in file.payloads for where in place.where]


def sign_file(path: Path, signer: Signer) -> None:
    """Sign a file as a whole, in ``<path>.sig``; other signatures stay if they are of these bytes.

    Raises:
        SignatureError: the file is missing, or its ``.sig`` is damaged.
        DestinationError: the ``.sig`` cannot be written.
    """
    facts = FileSignature.of(path)
    others: tuple[tuple[bytes, bytes], ...] = ()
    if signature_path(path).exists():
        before = read_file_signature(path)
        others = before.signatures if before.message == facts.message else ()
    write_bytes(signature_path(path), facts.signed_by(signer, others).text().encode())


def _signed(place: PayloadPlace, signer: Signer) -> bytes:
    signature = signer.sign(message_to_sign(place.data))
    return with_signature(place.data, PayloadSignature(signer.public, signature))


def _write_program(
    program: Path, output: Path, signed: Sequence[tuple[PayloadPlace, bytes]]
) -> None:
    """Copy the program with the signed payloads in their places."""
    places = sorted((offset, data) for place, data in signed for offset in place.offsets)
    with writing(output) as file, program.open("rb") as source:
        for offset, data in places:
            _copy(source, file, offset - source.tell())
            file.write(data)
            source.seek(len(data), os.SEEK_CUR)
        shutil.copyfileobj(source, file, 1 << 20)


def _copy(source: BinaryIO, file: BinaryIO, nbytes: int) -> None:
    while nbytes:
        data = source.read(min(nbytes, 1 << 20))
        if not data:
            raise SignatureError("the program became shorter while it was signed")
        file.write(data)
        nbytes -= len(data)
