"""The names that the blobs of one program have, so that no two blobs get one."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field

from aoti_plugins.errors import PluginConflictError
from aoti_plugins.plugin_system.merging import conflict_message
from aoti_plugins.plugin_system.origin import Origin


@dataclass(frozen=True)
class _Named:
    sha256: str
    what: str
    namer: Origin

    def __str__(self) -> str:
        return f"{self.what}, {self.sha256[:8]}...: {self.namer.provider}"


@dataclass
class BlobsNamed:
    """Names of blobs, and who gave them to which bytes."""

    _found: dict[str, _Named] = field(default_factory=dict)

    def add(self, name: str, sha256: str, what: str, namer: Origin) -> None:
        """Note a name.

        Args:
            name: the blob's name.
            sha256: digest of its bytes.
            what: the blob, for messages.
            namer: the plugin that named it.

        Raises:
            PluginConflictError: other bytes have this name.
        """
        new = _Named(sha256, what, namer)
        first = self._found.setdefault(name, new)
        if first.sha256 == sha256:
            return
        headline = (
            f"blob name {name!r} was given to two blobs that are not the same bytes; hook "
            "'aoti_blob_name' gets their digest to tell them apart:"
        )
        message = conflict_message(headline, [str(first), str(new)], [first.namer, namer])
        raise PluginConflictError((message,))


_named: contextvars.ContextVar[BlobsNamed | None] = contextvars.ContextVar(
    "blobs_named", default=None
)


@contextlib.contextmanager
def one_program() -> Iterator[None]:
    """Within the block, everything that is lowered for a device goes into one program."""
    token = _named.set(BlobsNamed())
    try:
        yield
    finally:
        _named.reset(token)


def current() -> BlobsNamed:
    """The names of the program that is lowered; of a partition alone, none yet."""
    return _named.get() or BlobsNamed()
