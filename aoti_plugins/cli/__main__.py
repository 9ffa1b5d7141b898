"""Allows ``python -m aoti_plugins.cli``."""

from __future__ import annotations

from aoti_plugins.cli import main

main()
