"""The facts in which devices differ, for the shared pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from aoti_plugins.errors import LoweringError
from aoti_plugins.types import Target


@dataclass(frozen=True)
class Device:
    """One device as the pipeline sees it.

    Attributes:
        name: ``"cpu"``, ``"cuda"`` or ``"mps"``.
        runtime_library: file name of the delegate's library; blobs need it by that soname.
        environment: patches under which Inductor generates code for a target.
        default_target: name of the target when the user gives none.
        aliases: names that stand for a target found on this machine, for instance ``"native"``.
    """

    name: str
    runtime_library: str
    environment: Callable[[Target], AbstractContextManager[None]]
    default_target: Callable[[], str]
    aliases: Mapping[str, Callable[[], str]] = field(default_factory=dict)

    def resolve(self, names: tuple[str, ...], known: Mapping[str, Target]) -> list[Target]:
        """Look targets up by name.

        Args:
            names: what the user gave; empty for the default.
            known: targets of all plugins, by name.

        Raises:
            LoweringError: an unknown name; the message lists the known ones.
        """
        found: dict[str, Target] = {}
        for name in names or (self.default_target(),):
            resolved = self.aliases[name]() if name in self.aliases else name
            if resolved not in known:
                choice = ", ".join(sorted({*known, *self.aliases}))
                raise LoweringError(
                    f"unknown target {name!r} for device {self.name!r}; there are: {choice}"
                )
            found[resolved] = known[resolved]
        return list(found.values())
