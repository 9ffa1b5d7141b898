"""``PluginManager`` and ``get_manager`` under an older name; import them from ``aoti_plugins``."""

from aoti_plugins.plugin_system.manager import PluginManager, get_manager

__all__ = ["PluginManager", "get_manager"]
