"""Triton's digest of itself, computed once per installation and not once per process.

Triton puts a SHA-256 of its own files into the keys of what it caches. One of them has half a
gigabyte, so that takes every process seconds. The digest is kept in our cache, by the names, sizes
and times of those files. A thread finds it, since nobody asks for it at once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from unittest import mock

from aoti_plugins.lowering.artifacts.compile_cache import cached_text
from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "triton.runtime.cache.triton_key",
    "triton.runtime.autotuner.triton_key",
    "torch._inductor.runtime.triton_compat.triton_key",
    why="Every process would spend seconds on Triton's digest of itself.",
    until="Triton keeps it",
)
def known_triton_version() -> Iterator[None]:
    """Let Triton and Inductor take the digest from the cache."""
    from torch._inductor.runtime import triton_compat
    from triton.runtime import autotuner, cache

    original = cache.triton_key
    kept = functools.partial(_triton_key, original)
    _begun(original)
    with contextlib.ExitStack() as stack:
        for module in (cache, autotuner, triton_compat):
            stack.enter_context(mock.patch.object(module, "triton_key", kept))
        yield


def _triton_key(original: Callable[[], str]) -> str:
    try:
        return _begun(original).result()
    except BaseException:
        _begun.cache_clear()  # the next one tries again
        raise


@functools.cache
def _begun(original: Callable[[], str]) -> Future[str]:
    """The digest, once per process, by a thread that an interrupted process does not wait for."""
    begun: Future[str] = Future()

    def find() -> None:
        try:
            begun.set_result(_found(original))
        except BaseException as error:
            begun.set_exception(error)

    threading.Thread(target=find, name="triton digest", daemon=True).start()
    return begun


def _found(original: Callable[[], str]) -> str:
    import triton

    return cached_text("triton", _stamp(Path(triton.__file__).parent), original)


def _stamp(package: Path) -> bytes:
    """Digest of names, sizes and times of a package's sources and libraries."""
    found = []
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.so")]):
        status = path.stat()
        found.append((str(path), status.st_size, status.st_mtime_ns, status.st_ino))
    return hashlib.sha256(repr(found).encode()).digest()
