"""The command line ``aoti-plugins``; one file per command, each loaded when it is used."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the script ``aoti-plugins``."""
    try:
        from aoti_plugins.cli._interrupts import interrupts

        interrupts.install()  # before anything that takes its time
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    from aoti_plugins.cli._text import write_what_can_be_shown
    from aoti_plugins.cli.app import app

    write_what_can_be_shown()
    try:
        app(prog_name="aoti-plugins")
    finally:
        interrupts.end_if_it_happened()
