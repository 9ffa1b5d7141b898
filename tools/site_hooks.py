"""For the site: the decisions are in its navigation, in order, without being listed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Put all files of ``docs/decisions`` into the section of that name."""
    folder = Path(config.docs_dir) / "decisions"
    pages = [f"decisions/{path.name}" for path in sorted(folder.glob("*.md"))]
    config.nav.append({"Decisions": pages})
    return config
