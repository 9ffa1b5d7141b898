"""``docs/operator-suite.md`` says what the stored results of ExecuTorch's suite say."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    module = runpy.run_path(str(ROOT / "tests" / "peer" / "table.py"))
    page = (ROOT / "docs" / "operator-suite.md").read_text()
    assert page == module["document"](), "run: python tests/peer/table.py"
