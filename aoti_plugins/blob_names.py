"""Built-in names for blobs: by content (the default plugin), or readable (register it yourself).

The module itself is the default plugin. It answers last, so any other plugin may decide first.
"""

from __future__ import annotations

import threading

from aoti_plugins.hooks import hookimpl
from aoti_plugins.types import BlobName

AOTI_PLUGINS_API = 1

_SHORT_DIGEST = 8


@hookimpl(trylast=True)
def aoti_blob_name(kind: str, sha256: str) -> str:
    """Name a blob after its content, so that equal bytes are stored once in a program."""
    return f"{sha256}_{kind}_blob"


class ReadableNames:
    """Names like ``forward_so_blob`` and ``forward_weights_blob``.

    The first blob of a kind and method gets the plain name; one with other bytes, from another
    partition, storage, target or device, gets a short digest appended
    (``forward_so_blob_1f0c33ab``). So equal names always mean equal bytes, and asking again gives
    the same name. A method name that is not ASCII is left to the next plugin.

    Use one object per program. A second program lowered with the same object is right as well,
    but the plain names are taken by then. May be used from several threads.

    Example:
        >>> from aoti_plugins import PluginManager
        >>> manager = PluginManager(load_entry_points=False)
        >>> with manager.registered(ReadableNames(), "readable"):
        ...     print(manager.blob_name("so", "cpu", "forward", "1f" * 32))
        ...     print(manager.blob_name("so", "cpu", "forward", "2e" * 32))
        forward_so_blob
        forward_so_blob_2e2e2e2e
    """

    def __init__(self, external: bool = True) -> None:
        """Create a policy for one program.

        Args:
            external: tag each name ``aoti_{device}_blob``, which puts the blobs in the data file
                of that name; ``False`` keeps them in the ``.pte``.
        """
        self._external = external
        self._names: dict[tuple[str, str, str], str] = {}
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    @hookimpl
    def aoti_blob_name(self, kind: str, device: str, method: str, sha256: str) -> str | None:
        """Name a blob after its method and kind; see the class for the details."""
        if not (method.isascii() and method.isprintable()):
            return None
        with self._lock:
            name = self._names.get((kind, method, sha256)) or self._new_name(kind, method, sha256)
        return BlobName(name, f"aoti_{device}_blob" if self._external else None)

    def __reduce__(self) -> tuple[type[ReadableNames], tuple[bool]]:
        return ReadableNames, (self._external,)  # a copy is for a program of its own

    def _new_name(self, kind: str, method: str, sha256: str) -> str:
        plain = f"{method}_{kind}_blob"
        candidates = [plain]
        candidates += [f"{plain}_{sha256[:n]}" for n in range(_SHORT_DIGEST, len(sha256) + 1)]
        name = next(candidate for candidate in candidates if candidate not in self._taken)
        self._taken.add(name)
        self._names[kind, method, sha256] = name
        return name
