"""``aoti-plugins verify``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from aoti_plugins.cli._options import PATH, data_option, program_argument
from aoti_plugins.cli._output import json_option, print_json
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.signing.keys import public_keys
from aoti_plugins.signing.verify import Checked, Report, verify_program


@click.command()
@program_argument
@click.option(
    "--key",
    "key_files",
    multiple=True,
    type=PATH,
    help="A public key, Ed25519 in PEM; one of those given has to have signed.",
)
@data_option
@click.option("--whole-files", is_flag=True, help="Demand a .sig beside each file.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    program: Path,
    key_files: tuple[Path, ...],
    data_files: tuple[Path, ...],
    whole_files: bool,
    as_json: bool,
) -> None:
    """Compare a program's code and weights with their digests, and check its signatures.

    Nothing of the program runs. The exit status is 0 if all is well, and 1 if something is damaged
    or not signed as it has to be.
    """
    quiet()
    keys = public_keys(key_files) if key_files else ()
    report = verify_program(program, data_files, keys, whole_files=whole_files)
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        click.echo(_text(report))
    context.exit(0 if report.ok else 1)


def _text(report: Report) -> str:
    lines = [*_lines("delegate", report.delegates), *_lines("file", report.files)]
    lines += [
        f"delegate {one}: of another backend, which only a signature of the file covers"
        for one in report.uncovered
    ]
    return "\n".join([*lines, "ok" if report.ok else "not ok"])


def _lines(what: str, checked: Sequence[Checked]) -> Iterator[str]:
    for one in checked:
        yield f"{what} {one.name}: signed by {', '.join(one.signed_by) or 'nobody'}"
        for problem in one.problems:
            yield f"  {problem}"
