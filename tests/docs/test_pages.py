"""The site: its Python snippets run, and it is built without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

DOCS = ROOT / "docs"
PAGES = ("start/cpu.md", "start/cuda.md", "start/mps.md", "quantisation.md", "coming-from.md")
SNIPPET = re.compile(
    r"^(?P<mark><!-- not run by the tests: [^\n]+ -->\n)?```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def snippets(page: str) -> list[str]:
    """Those of a page that the tests run."""
    text = (DOCS / page).read_text()
    found = list(SNIPPET.finditer(text))
    assert len(found) == text.count("```python")
    return [one["code"] for one in found if one["mark"] is None]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore")  # those of PyTorch and torchao, which readers see, too
def test_snippets(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in the order of the page, each with what those before it made."""
    monkeypatch.chdir(tmp_path)
    import torch

    torch.manual_seed(0)
    found = snippets(page)
    assert found
    namespace: dict[str, object] = {"__name__": "snippets"}
    for number, code in enumerate(found):
        exec(compile(code, f"{page}, snippet {number}", "exec"), namespace)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert (tmp_path / "decisions" / "0059-programs-called-like-modules" / "index.html").exists()
    reference = (tmp_path / "api" / "runtime" / "index.html").read_text()
    assert "aoti_plugins.runtime.program.Program.module" in reference


def test_every_page_of_snippets_is_one() -> None:
    """A quick start or a guide with new snippets is in ``PAGES``."""
    assert {str(path.relative_to(DOCS)) for path in (DOCS / "start").glob("*.md")} <= set(PAGES)
