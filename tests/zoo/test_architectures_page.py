"""The page on architectures says what the stored results say."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_it_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    page = importlib.import_module("architectures")
    assert page.DOCUMENT.read_text() == page.document(), "run python tests/zoo/architectures.py"
