"""The tests judge this package alone: other plugins that are installed are blocked."""

from __future__ import annotations

import os
from importlib.metadata import entry_points

_PLUGINS = {entry.dist.name for entry in entry_points(group="aoti_plugins")}
os.environ["AOTI_PLUGINS_BLOCK"] = ",".join(sorted(_PLUGINS - {"aoti-plugins", "acme-python"}))
