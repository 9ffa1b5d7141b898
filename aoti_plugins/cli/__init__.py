"""The command line ``aoti-plugins``; one file per command, each loaded when it is used."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the script ``aoti-plugins``."""
    from aoti_plugins.cli.app import app

    app(prog_name="aoti-plugins")
