"""For the site: examples in docstrings are shown as code.

Google's style has sections ``Example`` and ``Examples``; what reads them takes only the latter for
code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^( *)Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the sections before they are read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename those of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _SECTION.sub(r"\1Examples:", obj.docstring.value)
