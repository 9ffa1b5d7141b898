"""Keep the assembler and its files together, so that an interrupted lowering leaves none behind.

Triton writes assembly and log into the folder for temporary files and removes them when the
assembler is done or has failed, but not when it is interrupted; and it runs assemblers that an
interrupt does not reach where threads wait for them.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.compiler import current_group
from aoti_plugins.lowering.inductor.own_folders import put_back
from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "triton.backends.nvidia.compiler.tempfile",
    "triton.backends.nvidia.compiler.subprocess",
    why="An interrupted lowering leaves Triton's files and assemblers behind.",
    until="Triton removes and ends them in any case",
)
def assembler_files() -> Iterator[None]:
    """Let Triton's assembler work in a folder that goes with the block, and end with its group."""
    from triton.backends.nvidia import compiler

    with tempfile.TemporaryDirectory(prefix="aoti_plugins-") as folder:
        named = functools.partial(tempfile.NamedTemporaryFile, dir=folder)
        inside = SimpleNamespace(NamedTemporaryFile=named)
        commands = SimpleNamespace(**{**vars(subprocess), "run": _run})
        with (
            mock.patch.object(compiler, "tempfile", inside),
            mock.patch.object(compiler, "subprocess", commands),
        ):
            yield


def _run(
    command: Sequence[str], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` without pipes, for the group of the compilers of this lowering.

    Raises:
        KeyboardInterrupt: the group was stopped, which is no fault of the assembler's.
        subprocess.CalledProcessError: it failed, and ``check`` is true.
    """
    group = current_group()
    if group.is_stopped:
        raise KeyboardInterrupt
    try:
        with group.started(command, **options) as process:
            status = process.wait()
    except LoweringError:  # stopped just before it started
        raise KeyboardInterrupt from None
    if group.is_stopped:
        raise KeyboardInterrupt
    if check and status:
        raise subprocess.CalledProcessError(status, command)
    return subprocess.CompletedProcess(command, status)


def pytorchs_assembler() -> AbstractContextManager[Any]:
    """Let Triton take PyTorch's assembler, if PyTorch brings one, as those of 2.11 and 2.12 do.

    Inductor sets it, too, but once per process, and a lowering puts the environment back: kernels
    of the first graph would be assembled by another one than those of the next.
    One that the user names by ``TRITON_PTXAS_PATH`` wins.
    """
    setting = "TRITON_PTXAS_PATH"
    own = Path(torch.__file__).parent / "bin" / "ptxas"
    if setting in os.environ or not os.access(own, os.X_OK):
        return nullcontext()
    with ExitStack() as stack:
        stack.callback(put_back, dict(os.environ))
        os.environ[setting] = str(own)
        return stack.pop_all()
