"""How the commands print: tables for people, JSON for scripts, sizes and times that can be read."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from rich import box
from rich.console import (
    Console,
    ConsoleOptions,
    Group,
    JustifyMethod,
    RenderableType,
    RenderResult,
)
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aoti_plugins.cli._text import echo

_BOX = box.SIMPLE_HEAD
_PADDING = 3  # columns between two cells of such a table
_WIDE = 140
_DIGEST = re.compile(r"\b[0-9a-f]{64}(?=\b|_)")
_DIGEST_SHOWN = 12

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
    is_utf8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    echo(json.dumps(value, indent=2, ensure_ascii=not is_utf8))


def print_report(report: Any, as_json: bool, show: Callable[[Any], None]) -> None:
    """Print a report as JSON, or for people, as ``show`` does."""
    if as_json:
        print_json(report)
    else:
        show(report)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Listing:
    """Make a table; columns whose name begins with ``>`` are aligned to the right."""
    return Listing(title, columns, [list(map(_cell, row)) for row in rows])


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text(str(value))


class Listing:
    """A table, or where its columns would break words, a list with a line for each cell."""

    def __init__(self, title: str, columns: Sequence[str], rows: list[list[Text]]) -> None:
        self._title = title
        self._columns = columns
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        rows = self._rows if width >= _WIDE else [list(map(_shortened, row)) for row in self._rows]
        columns = [[name, *(row[i].plain for row in rows)] for i, name in enumerate(self._columns)]
        longest = [max(map(_longest_word, column)) for column in columns]
        room = width - _PADDING * len(longest) - 1
        if sum(longest) <= room:
            whole = [max(map(len, column)) for column in columns]
            yield self._table(rows, _shared(room, whole, longest))
        elif len(longest) == 2:  # a list would take as much room
            yield self._table(rows, [None, None])
        else:
            yield self._list(rows)

    def _table(self, rows: list[list[Text]], widths: Sequence[int | None]) -> Table:
        result = Table(title=self._title, title_justify="left", box=_BOX, title_style="bold")
        for name, width in zip(self._columns, widths, strict=True):
            justify: JustifyMethod = "right" if name.startswith(">") else "left"
            result.add_column(name.lstrip(">"), justify=justify, overflow="fold", width=width)
        for row in rows:
            result.add_row(*row)
        return result

    def _list(self, rows: list[list[Text]]) -> Group:
        first = 1 + (not self._columns[0])  # a mark without a name belongs to what comes next
        parts: list[RenderableType] = [Text(f"{self._title}\n", style="bold")]
        for row in rows:
            named = zip(self._columns[first:], row[first:], strict=True)
            cells = [
                Text.assemble((f"{name.lstrip('>')}: ", "dim"), cell)
                for name, cell in named
                if cell.plain
            ]
            parts.append(Text(" ").join([Text(" "), *row[:first]]))
            parts.append(Padding(Text("; ").join(cells), (0, 0, 0, 4)))
        return Group(*parts, Text(""))


def _shared(room: int, wanted: list[int], least: list[int]) -> list[int]:
    """Share room among columns: what is missing is taken from those that can give most."""
    widths = list(wanted)
    for _ in range(sum(widths) - room):
        widest = max(range(len(widths)), key=lambda i: widths[i] - least[i])
        widths[widest] -= 1
    return widths


def _longest_word(text: str) -> int:
    return max(map(len, text.lstrip(">").split()), default=0)


def _shortened(cell: Text) -> Text:
    """Keep the beginning of digests; a program's are told apart by it."""
    plain = _DIGEST.sub(lambda found: f"{found[0][:_DIGEST_SHOWN]}…", cell.plain)
    return cell if plain == cell.plain else Text(plain)


def nbytes_text(nbytes: int) -> str:
    """Write a size as a person reads it; exact below 1 KiB."""
    if nbytes < 1024:
        return f"{nbytes} B"
    power = min((nbytes.bit_length() - 1) // 10, 3)
    return f"{nbytes / 1024**power:.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"
