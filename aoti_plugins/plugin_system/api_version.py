"""The version of the hooks, and which packages written for another one still work.

It is one number for everything a hook package relies on: the hook specs and ``types.py``. It goes
up when something is added that a package may ask for, or when something changes. Where packages
written before a change would no longer work, ``OLDEST`` goes up with it.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from aoti_plugins.errors import PluginError
from aoti_plugins.plugin_system.origin import BLOCK_VARIABLE, OWN_DISTRIBUTION, Origin

CURRENT = 1
"""What a package states that is written now."""

OLDEST = 1
"""The oldest version that a package may have been written for."""

ATTRIBUTE = "AOTI_PLUGINS_API"
"""Where a plugin states the version."""


def check_api_version(origin: Origin, plugin: object) -> None:
    """Check which version of the hooks a plugin was written for.

    An installed package has to say; what a running program registers was made with the version that
    runs, and may say.

    Raises:
        PluginError: it does not say, or says a version that does not work here.
    """
    stated = getattr(plugin, ATTRIBUTE, None)
    if stated is None:
        if origin.distribution is not None:
            raise PluginError(
                f"{origin} does not say which version of the hooks it was written for; its module "
                f"needs a line like '{ATTRIBUTE} = {CURRENT}'\n{origin.remedy}"
            )
    elif not isinstance(stated, int) or isinstance(stated, bool):
        raise PluginError(
            f"{origin} says {ATTRIBUTE} = {stated!r}; expected a number like {CURRENT}\n"
            f"{origin.remedy}"
        )
    elif stated > CURRENT:
        raise PluginError(
            f"{origin} was written for version {stated} of the hooks; {_ours()} has version "
            f"{CURRENT}\n{_upgrade_us(origin)}"
        )
    elif stated < OLDEST:
        raise PluginError(
            f"{origin} was written for version {stated} of the hooks; {_ours()} works with "
            f"versions {OLDEST} to {CURRENT}\n{origin.remedy}"
        )


def _ours() -> str:
    try:
        return f"{OWN_DISTRIBUTION} {version(OWN_DISTRIBUTION)}"
    except PackageNotFoundError:  # used from its sources
        return OWN_DISTRIBUTION


def _upgrade_us(origin: Origin) -> str:
    if origin.distribution is None:
        return f"Upgrade {OWN_DISTRIBUTION}."
    return (
        f"Upgrade {OWN_DISTRIBUTION}, install an older {origin.distribution}, "
        f"or block the plugin with {BLOCK_VARIABLE}={origin.name}."
    )
