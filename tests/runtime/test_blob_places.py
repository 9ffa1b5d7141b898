"""Programs load where anonymous files are refused or /proc is missing: from a private folder."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Lowered = Callable[[str], Path]
RunPython = Callable[..., str]

# What container runtimes do: a filter of system calls, here one that refuses memfd_create.
REFUSE = """
import ctypes, errno, os, platform, struct

NUMBERS = {"x86_64": (319, 0xC000003E), "aarch64": (279, 0xC00000B7)}

def refuse_memfd():
    number, machine = NUMBERS[platform.machine()]
    code = [
        (0x20, 0, 0, 4),                            # load the machine
        (0x15, 0, 2, machine),
        (0x20, 0, 0, 0),                            # load the number of the call
        (0x15, 1, 0, number),
        (0x06, 0, 0, 0x7FFF0000),                   # allow
        (0x06, 0, 0, 0x00050000 | errno.EPERM),     # refuse
    ]
    filter = b"".join(struct.pack("HBBI", *one) for one in code)
    memory = ctypes.create_string_buffer(filter, len(filter))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(memory))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong)
    assert prctl(38, 1, None, 0, 0) == 0            # PR_SET_NO_NEW_PRIVS
    assert prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, a filter
    try:
        os.memfd_create("x")
    except PermissionError:
        return
    raise AssertionError("memfd_create is not refused")
"""
RUN = """
import os, sys
import numpy
from aoti_plugins.errors import ProgramError, RuntimeLoadError
from aoti_plugins.runtime import Program
from aoti_plugins.runtime._libraries import blob_place

try:
    print("place:", blob_place())
except RuntimeLoadError as error:
    print("no place:", error)
try:
    x = numpy.ones((4, 64), numpy.float32)
    results = []
    for _ in range(2):
        with Program(sys.argv[1]) as one, Program(sys.argv[1]) as other:
            results += [one(x)[0], other(x)[0]]
    print("same:", all(numpy.array_equal(result, results[0]) for result in results))
except ProgramError as error:
    print("error:", error)
"""


def test_memory_is_the_first_choice(lowered_programs: Lowered, run_python: RunPython) -> None:
    printed = run_python(RUN, lowered_programs("mlp"))
    assert "place: memory\n" in printed
    assert "same: True" in printed


def test_where_memfd_is_refused_a_private_folder_is_used(
    lowered_programs: Lowered, run_python: RunPython, tmp_path: Path
) -> None:
    folder = tmp_path / "blobs"
    folder.mkdir()
    script = f"{REFUSE}\nrefuse_memfd()\n{RUN}"
    program = lowered_programs("mlp")
    printed = run_python(script, program, AOTI_PLUGINS_BLOB_DIR=str(folder))
    assert f"place: files in {folder}\n" in printed
    assert "same: True" in printed
    assert list(folder.iterdir()) == [], "something was left behind"


@pytest.mark.parametrize(("mode", "reason"), [(0o777, "no sticky bit"), (None, "it is no folder")])
def test_a_folder_that_others_can_change_is_refused(
    lowered_programs: Lowered, run_python: RunPython, tmp_path: Path, mode: int | None, reason: str
) -> None:
    folder = tmp_path / "blobs"
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)
    script = f"{REFUSE}\nrefuse_memfd()\n{RUN}"
    program = lowered_programs("mlp")
    printed = run_python(script, program, AOTI_PLUGINS_BLOB_DIR=str(folder))
    assert "no place: no place from which code can be run: memory: no anonymous file" in printed
    assert "error: " in printed
    assert reason in printed.partition("error: ")[2]


def test_without_proc_and_from_a_noexec_mount(
    lowered_programs: Lowered, run_python: RunPython, tmp_path: Path
) -> None:
    """An empty file system hides /proc; one without execution is passed over."""
    hide = 'mount -t tmpfs none /proc && mount -t tmpfs -o noexec none $0 && shift && exec "$@"'
    noexec, folder = tmp_path / "noexec", tmp_path / "blobs"
    noexec.mkdir()
    folder.mkdir()
    prefix = ("unshare", "--mount", "--map-root-user", "sh", "-c", hide, str(noexec), "-")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("this system lets its users mount nothing: unshare --mount fails")
    script = 'import os\nassert not os.path.exists("/proc/self")\n' + RUN
    places = {"XDG_RUNTIME_DIR": str(noexec), "TMPDIR": str(folder), "AOTI_PLUGINS_BLOB_DIR": ""}
    program = lowered_programs("mlp")
    printed = run_python(script, program, prefix=prefix, **places)
    assert f"place: files in {folder}\n" in printed
    assert "same: True" in printed
    only = run_python(
        script, program, prefix=prefix, **{**places, "AOTI_PLUGINS_BLOB_DIR": str(noexec)}
    )
    assert f"{noexec}: code may not be run from there" in only.partition("error: ")[2]
