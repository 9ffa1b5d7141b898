"""How the commands print: tables for people, JSON for scripts, sizes and times that can be read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def console() -> Console:
    """Return the console for results; wide when it is not a terminal, so that nothing is cut."""
    return _console(sys.stdout)


def error_console() -> Console:
    """Return the console for progress."""
    return _console(sys.stderr)


def _console(file: Any) -> Console:
    width = None if file.isatty() else 160
    return Console(file=file, width=width, highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    """Print a value as indented JSON on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Make a table; columns whose name begins with ``>`` are aligned to the right."""
    result = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for name in columns:
        right = name.startswith(">")
        result.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return result


def nbytes_text(nbytes: int) -> str:
    """Write a size as a person reads it; exact below 1 KiB."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def seconds_text(seconds: float) -> str:
    """Write a time with a unit that leaves digits before the point."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.2f} s"
