"""Who a plugin is and where it comes from, as messages name it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

BLOCK_VARIABLE = "AOTI_PLUGINS_BLOCK"
OWN_DISTRIBUTION = "aoti-plugins"


@dataclass(frozen=True)
class Origin:
    """Where a plugin comes from.

    Attributes:
        name: entry-point name, or the name it was registered under.
        distribution: name of the distribution; ``None`` when registered by a program.
        version: version of the distribution, or ``None``.
    """

    name: str
    distribution: str | None = None
    version: str | None = None

    @property
    def key(self) -> str:
        """Distinct for distinct plugins, also where two distributions use one entry-point name."""
        return self.name if self.distribution is None else f"{self.distribution}:{self.name}"

    def __str__(self) -> str:
        if self.distribution is None:
            return f"plugin {self.name!r}"
        return f"plugin {self.name!r} of {self.distribution} {self.version}"

    @property
    def is_own(self) -> bool:
        """Whether it is part of this package."""
        return normalize(self.distribution or "") == OWN_DISTRIBUTION

    @property
    def provider(self) -> str:
        """A line for a list of providers."""
        if self.distribution is None:
            return f"plugin {self.name!r}, registered by the running program"
        line = f"{self.distribution} {self.version}"
        if normalize(self.name) != normalize(self.distribution):
            line += f" (plugin {self.name!r})"
        return line

    @property
    def remedy(self) -> str:
        """What a user can do about a plugin that does not work."""
        if self.distribution is None:
            return f"Fix {self}, or do not register it."
        return (
            f"Upgrade {self.distribution}, uninstall it, "
            f"or block the plugin with {BLOCK_VARIABLE}={self.name}."
        )

    def is_blocked_by(self, names: Iterable[str]) -> bool:
        """Whether one of the normalized ``names`` is this plugin's or its distribution's."""
        own = {normalize(self.name), normalize(self.distribution or self.name)}
        return not own.isdisjoint(names)


def normalize(name: str) -> str:
    """Make ``Acme_Kernels`` and ``acme-kernels`` equal, as package indexes do."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
