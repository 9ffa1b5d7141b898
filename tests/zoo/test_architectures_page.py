"""The page on architectures says what the stored results say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("architectures")


def test_it_is_up_to_date(page: Any) -> None:
    assert page.DOCUMENT.read_text() == page.document(), "run python tests/zoo/architectures.py"


def test_a_run_is_merged(page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(page.RESULTS.read_text())
    monkeypatch.setattr(page, "RESULTS", stored)
    run = json.loads(stored.read_text())["runs"][0]
    models = {
        "transformers.bert": {"result": "RIGHT", "relative_error": 3.5e-08},
        "transformers.olmoe": {"result": "MISSING", "cause": "OlmoeConfig is not in it"},
    }
    found = tmp_path / "found.json"
    found.write_text(
        json.dumps(
            {
                "environment": run["environment"],
                "device": "cuda",
                "packages": {"transformers": "4.57.1"},
                "models": models,
            }
        )
    )
    runs = len(json.loads(stored.read_text())["runs"])
    page.merge(found, "1a2b3c4", "merged by a test")
    text = page.document()
    assert f"| `transformers.bert` | right | 3.5e-08 | {runs + 1} |" in text
    assert f"{runs + 1}. 1 models, merged by a test." in text
    assert "commit 1a2b3c4" in text
    assert "transformers 4.57.1. Not there: OlmoeConfig is not in it." in text


def test_a_run_elsewhere_is_not_merged(page: Any, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    found.write_text(json.dumps({"device": "cpu", "models": {}}))
    with pytest.raises(ValueError, match="results for 'cpu', not for 'cuda'"):
        page.merge(found, "1a2b3c4", "merged by a test")
