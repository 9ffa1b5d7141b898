"""What a lowering shows of itself in Python."""

from __future__ import annotations

import io
import re
import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from rich.console import Console
from support import lower

import aoti_plugins
from aoti_plugins.lowering import stage_display
from aoti_plugins.lowering.stage_display import (
    PROGRESS_VARIABLE,
    StageDisplay,
    is_progress_shown,
    stages_shown,
    waiting,
)
from aoti_plugins.types import ProgressEvent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(PROGRESS_VARIABLE, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield
    aoti_plugins.show_progress(None)


def lowered_to(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a lowering writes to a stream in place of standard error."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(stage_display, "_WORTH_A_LINE_S", 0)
    lower(torch.nn.ReLU(), (torch.ones(3),))
    return re.sub(r"\x1b\[[\d?;]*\w", "", stream.getvalue())


def test_a_terminal_shows_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    text = lowered_to(Terminal(), monkeypatch)
    assert "cpu: asking which ops can be delegated" in text
    assert "✓ cpu forward: compile" in text


def test_what_is_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lowered_to(io.StringIO(), monkeypatch) == ""


def test_a_terminal_may_be_told_to_be_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRESS_VARIABLE, "off")
    assert lowered_to(Terminal(), monkeypatch) == ""


def test_what_is_no_terminal_may_show_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    aoti_plugins.show_progress(True)
    text = lowered_to(io.StringIO(), monkeypatch)
    assert "✓ cpu forward: compile" in text
    assert "asking" not in text


@pytest.mark.parametrize(
    ("variable", "chosen", "terminal", "shown"),
    [
        ("", None, True, True),
        ("", None, False, False),
        ("auto", None, True, True),
        ("on", None, False, True),
        ("off", None, True, False),
        ("on", False, True, False),
        ("off", True, False, True),
    ],
)
def test_who_decides(
    monkeypatch: pytest.MonkeyPatch, variable: str, chosen: bool | None, terminal: bool, shown: bool
) -> None:
    monkeypatch.setenv(PROGRESS_VARIABLE, variable)
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    aoti_plugins.show_progress(chosen)
    assert is_progress_shown() is shown


def test_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_progress_shown()
    with stages_shown(), waiting("something"):
        pass


def test_a_variable_that_means_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(PROGRESS_VARIABLE, "loud")
    assert not is_progress_shown()
    assert "AOTI_PLUGINS_PROGRESS is 'loud', expected on, off or auto" in caplog.text


def test_one_display_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with StageDisplay(Console(file=io.StringIO())):
        with stages_shown(), waiting("something"):
            pass
        assert stream.getvalue() == ""
    with waiting("something"):
        pass
    assert "something" in stream.getvalue()


def test_short_stages_leave_no_line_and_failures_do() -> None:
    stream = io.StringIO()
    display = StageDisplay(Console(file=stream), least_seconds=1)
    for status, seconds in (("end", 0.5), ("end", 2), ("fail", 0.25)):
        display.aoti_progress(ProgressEvent("compile", "start", "cpu", "forward", 0, 1))
        event = ProgressEvent("compile", status, "cpu", "forward", 0, 1, seconds)  # type: ignore[arg-type]
        display.aoti_progress(event)
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert lines == ["✓ cpu forward: compile 2.00 s", "✗ cpu forward: compile 250.00 ms"]
    assert [stage["seconds"] for stage in display.stages] == [0.5, 2, 0.25]


def test_stages_of_other_threads_are_theirs() -> None:
    stream = io.StringIO()
    display = StageDisplay(Console(file=stream), threading.get_ident() + 1)
    display.aoti_progress(ProgressEvent("compile", "end", "cpu", "forward", 0, 1, 2.0))
    assert stream.getvalue() == ""
