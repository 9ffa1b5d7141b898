"""A profile as one page of HTML: nothing is loaded from anywhere, and it needs no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from aoti_plugins.profiling.profile import KernelTime, Machine, ModuleTime
from aoti_plugins.runtime import CallEvent

_WIDTH, _ROW = 1160, 26
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; color: #1d2733; }
table { border-collapse: collapse; width: 100%; margin: .5em 0 2em; }
th, td { padding: .25em .6em; border-bottom: 1px solid #dde3ea; text-align: left;
         vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font-size: 12px; } small { color: #5b6876; } details { margin-left: 1.3em; }
.bar { display: inline-block; height: .7em; background: #3f7fc4; }
svg { background: #f5f7fa; width: 100%; height: auto; } svg text { font-size: 11px; }
"""
_KERNEL_COLUMNS = (
    *("kernel and where it is from", ">time", ">share", ">launches", ">bytes", ">of bandwidth"),
    ">of arithmetic",
)


@dataclass(frozen=True)
class Page:
    """What the page shows.

    Attributes:
        title: of the page.
        facts: lines under it, each a name and a value.
        call: events of one call.
        kernels: the slowest first.
        tree: by module.
        memory: what the program plans, each a name and bytes.
        outside: what is not in delegates: an op, where it is, why.
        machine: what shares are of.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    call: Sequence[CallEvent]
    kernels: Sequence[KernelTime]
    tree: ModuleTime
    memory: Sequence[tuple[str, int]]
    outside: Sequence[tuple[str, str, str]]
    machine: Machine


def html(page: Page) -> str:
    """Write the page."""
    total = sum(kernel.seconds for kernel in page.kernels)
    memory = [(name, f"{nbytes:,}") for name, nbytes in page.memory]
    outside = page.outside or [("nothing", "", "all of the method is in delegates")]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(page.title)}</title>",
        f"<style>{_STYLE}</style><h1>{escape(page.title)}</h1>",
        _table("Facts", ("", ""), _escaped(page.facts)),
        "<h2 id=timeline>Timeline of one call</h2>",
        _timeline(page.call),
        "<h2 id=modules>Modules</h2>",
        _module(page.tree, total or 1.0),
        _table("Kernels", _KERNEL_COLUMNS, _kernels(page, total or 1.0)),
        _table("Memory plan", ("what", "bytes"), _escaped(memory)),
        _table("Outside of delegates", ("op", "where", "why"), _escaped(outside)),
        "</html>\n",
    ]
    return "\n".join(parts)


def _escaped(rows: Iterable[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    return (tuple(map(escape, row)) for row in rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells in HTML under a title; columns whose name begins with ``>`` hold numbers."""
    kinds = [" class=n" if name.startswith(">") else "" for name in columns]
    head = "".join(
        f"<th{kind}>{escape(name.lstrip('>'))}</th>"
        for kind, name in zip(kinds, columns, strict=True)
    )
    lines = "\n".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    name = title.lower().replace(" ", "-")
    return f"<h2 id={name}>{escape(title)}</h2><table><tr>{head}</tr>\n{lines}</table>"


def _timeline(call: Sequence[CallEvent]) -> str:
    """A row for ExecuTorch's instructions, and one for kernels."""
    shown = [event for event in call if event.end_ns]
    if not shown:
        return "<p>no events</p>"
    begin = min(event.begin_ns for event in shown)
    span = max(max(event.end_ns for event in shown) - begin, 1)
    boxes = []
    for number, event in enumerate(shown):
        x = (event.begin_ns - begin) / span * _WIDTH
        width = max((event.end_ns - event.begin_ns) / span * _WIDTH, 0.5)
        row = 2 if event.is_kernel else min(event.instruction, 0) + 1
        colour = f"hsl({number * 47 % 360} 55% 68%)" if event.is_kernel else "#c3cedb"
        label = escape(f"{event.name}: {event.seconds * 1e6:.2f} µs")
        text = (
            f'<text x="{x + 3:.1f}" y="{row * _ROW + 17}">{escape(event.name[: int(width / 7)])}'
            "</text>"
            if width > 40
            else ""
        )
        boxes.append(
            f'<g><title>{label}</title><rect x="{x:.2f}" y="{row * _ROW + 2}" '
            f'width="{width:.2f}" height="{_ROW - 4}" fill="{colour}"/>{text}</g>'
        )
    return f'<svg viewBox="0 0 {_WIDTH} {3 * _ROW}">{"".join(boxes)}</svg>'


def _module(module: ModuleTime, total: float) -> str:
    share = module.seconds / total
    label = (
        f"<b>{escape(module.name or 'model')}</b> {module.seconds * 1e6:.2f} µs, {share:.1%} "
        f'<span class=bar style="width:{max(share, 0) * 200:.0f}px"></span>'
    )
    own = "".join(f"<div><code>{escape(name)}</code></div>" for name in module.kernels)
    inner = "".join(_module(part, total) for part in module.parts)
    return f"<details open><summary>{label}</summary>{own}{inner}</details>"


def _kernels(page: Page, total: float) -> Iterator[tuple[str, ...]]:
    for kernel in page.kernels:
        origin = kernel.origin
        lines = "".join(
            f"<br><small>{escape(text)}</small>"
            for text in (", ".join(origin.ops), ", ".join(origin.modules), *origin.lines)
            if text
        )
        yield (
            f"<code>{escape(origin.name)}</code>{lines}",
            f"{kernel.seconds * 1e6:.2f} µs",
            f"{kernel.seconds / total:.1%}",
            str(kernel.launches),
            f"{kernel.nbytes:,}" if kernel.nbytes else "",
            share_text(kernel.bandwidth_share(page.machine)),
            share_text(kernel.arithmetic_share(page.machine)),
        )


def share_text(share: float | None) -> str:
    """A share in percent; nothing for what is not known."""
    return "" if share is None else f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
