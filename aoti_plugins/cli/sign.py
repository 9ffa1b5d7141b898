"""``aoti-plugins sign``."""

from __future__ import annotations

from pathlib import Path

import click

from aoti_plugins.cli._options import PATH, data_option, program_argument
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.cli._text import echo
from aoti_plugins.destinations import check_destination
from aoti_plugins.errors import SignatureError
from aoti_plugins.signing.file_signature import signature_path
from aoti_plugins.signing.keys import Signer
from aoti_plugins.signing.sign import sign_file, sign_program


@click.command()
@program_argument
@click.option(
    "--key", "key_file", required=True, type=PATH, help="The private key, Ed25519 in PEM."
)
@click.option(
    "--passphrase-file", type=PATH, help="File whose first line is the passphrase of the key."
)
@data_option
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="The signed program; without it the program itself is replaced.",
)
@click.option("--file-only", is_flag=True, help="Only add a signature to the .sig files.")
def command(
    program: Path,
    key_file: Path,
    passphrase_file: Path | None,
    data_files: tuple[Path, ...],
    output: Path | None,
    file_only: bool,
) -> None:
    """Sign a program: the payloads of its delegates, with code and weights, and the whole file.

    Nothing is lowered again and no byte moves. The signature of the whole file is written beside
    it as PROGRAM.sig, and beside each data file. Make a key with: openssl genpkey -algorithm
    ed25519 -out private.pem
    """
    quiet()
    if file_only and output:
        raise click.UsageError("--file-only writes no program; leave --output out")
    signed_files = (output or program, *data_files)
    for path in (*(() if file_only else signed_files[:1]), *map(signature_path, signed_files)):
        check_destination(path)
    signer = Signer.from_file(key_file, _passphrase(passphrase_file))
    if file_only:
        for path in (program, *data_files):
            sign_file(path, signer)
        signed = ["nothing but whole files"]
    else:
        signed = sign_program(program, signer, output or program, data_files)
    echo(f"signed by {signer.public.hex()}: {', '.join(signed)}")
    for path in signed_files:
        echo(f"wrote {signature_path(path)}")


def _passphrase(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes().splitlines()[0]
    except (OSError, IndexError) as error:
        raise SignatureError(f"no passphrase can be read from {str(path)!r}: {error}") from error
