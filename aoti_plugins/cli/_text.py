"""Texts for terminals and files that cannot show every character."""

from __future__ import annotations

import codecs
import io
import sys

_ERRORS = "aoti_plugins_shown"
_ASCII = {"✓": "+", "✗": "x", "µ": "u", "…": "...", "×": "x"}  # ours; rich has other lines itself


def write_what_can_be_shown() -> None:
    """Have what an output's encoding lacks written in ASCII, instead of an error.

    Names of files, models and plugins may hold anything, also bytes that are no text.
    """
    codecs.register_error(_ERRORS, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def echo(text: str, *, end: str = "\n", err: bool = False) -> None:
    """Print a line. What ``click.echo`` prints is UTF-8 where the terminal is ASCII."""
    print(text, end=end, file=sys.stderr if err else sys.stdout, flush=True)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_ASCII.get(one) or ascii(one)[1:-1] for one in found), error.end
