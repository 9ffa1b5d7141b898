"""Keep what Inductor and Triton write, and read again, where nobody else can have written it.

Inductor's own folder has a name that everybody can guess, below a folder that everybody can write
to, and it runs the Python files that it finds there. Here each process gets a new one, which goes
with it: nothing of it saves time in a lowering. What Triton compiled does; it lies in the compile
cache, with digests that are checked. A folder that the user chose stays, if nobody else can write
to it. Set are environment variables, which both read whenever they need a folder.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from aoti_plugins.lowering.artifacts.cache_folder import check_private, private_folder
from aoti_plugins.lowering.inductor.patching import patch

logger = logging.getLogger(__name__)

_INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
_TRITON = "TRITON_CACHE_DIR"
_MANAGER = "TRITON_CACHE_MANAGER"
_CHECKED_MANAGER = "aoti_plugins.lowering.inductor.gpu.checked_cache:CheckedCacheManager"


@patch(
    "os.environ",
    "torch._inductor.runtime.cache_dir_utils.default_cache_dir",
    why="Inductor runs Python files from a folder that everybody can write to.",
    until="Inductor has a folder of the user's own",
)
def own_folders() -> Iterator[None]:
    """Let Inductor and Triton use folders of ours.

    Raises:
        CacheNotPrivateError: others can write to a folder that the user chose, or to our cache.
    """
    before = dict(os.environ)
    try:
        os.environ.update(_chosen())
        yield
    finally:
        put_back(before)


def put_back(before: Mapping[str, str]) -> None:
    """Make the environment what it was, also where others have set something since.

    ``mock.patch.dict`` would empty it for a moment, in which other threads of a lowering may start
    a compiler.
    """
    for name in os.environ.keys() - before.keys():
        os.environ.pop(name, None)
    os.environ.update({n: v for n, v in before.items() if os.environ.get(n) != v})


def _chosen() -> dict[str, str]:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    chosen = {_MANAGER: os.environ.get(_MANAGER, _CHECKED_MANAGER)}
    # Inductor notes its own choice in the environment.
    if os.environ.get(_INDUCTOR, default_cache_dir()) == default_cache_dir():
        chosen[_INDUCTOR] = _folder_of_process(os.getpid())
        chosen.setdefault(_TRITON, os.environ.get(_TRITON) or _triton_folder())
    for name in (_INDUCTOR, _TRITON):
        folder = Path(chosen.get(name) or os.environ.get(name, ""))
        if folder.is_dir():
            check_private(folder, name)
    return chosen


def _triton_folder() -> str:
    try:
        return str(private_folder("triton-kernels"))
    except OSError:
        logger.debug("what Triton compiles is not kept", exc_info=True)
        return _folder_of_process(os.getpid()) + "/triton"


@functools.cache
def _folder_of_process(pid: int) -> str:
    """A new folder; of its own for a process that was forked."""
    folder = tempfile.mkdtemp(prefix="aoti_plugins-")
    atexit.register(_remove, folder, pid)
    return folder


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
