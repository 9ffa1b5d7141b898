"""tools/glibc_versions.py: what a library asks of glibc, alone and in a wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "glibc_versions.py"
SOURCE = "int main_pid(void); extern int getpid(void); int main_pid(void) { return getpid(); }\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "one.c").write_text(SOURCE)
    path = folder / "one.so"
    subprocess.run(
        ["g++", "-xc", "-shared", "-fPIC", str(folder / "one.c"), "-o", str(path)], check=True
    )
    return path


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_old_enough(library: Path) -> None:
    done = check(library)
    assert (done.returncode, done.stdout) == (0, f"{library}: glibc 2.2.5\n")


def test_too_new_in_a_wheel(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "one-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.write(library, "one/one.so")
        wheel.writestr("one/__init__.py", "")
    done = check("--newest", "2.2", path)
    assert done.returncode == 1
    assert done.stdout == f"{path.name}:one/one.so: glibc 2.2.5, newer than 2.2\n"


def test_a_newer_library_of_gcc(tmp_path: Path) -> None:
    (tmp_path / "theirs.c").write_text("int theirs(void) { return 1; }\n")
    (tmp_path / "ours.c").write_text("int theirs(void); int ours(void) { return theirs(); }\n")
    (tmp_path / "theirs.map").write_text("GLIBCXX_3.4.30 { theirs; };\n")
    for options in (
        ["theirs.c", "-Wl,--version-script=theirs.map", "-o", "theirs.so"],
        ["ours.c", "-x", "none", "theirs.so", "-o", "ours.so"],
    ):
        subprocess.run(["g++", "-shared", "-fPIC", "-xc", *options], check=True, cwd=tmp_path)
    done = check(tmp_path / "ours.so")
    assert done.returncode == 1
    assert done.stdout == f"{tmp_path / 'ours.so'}: libstdc++ GLIBCXX 3.4.30, newer than 3.4.25\n"


def test_nothing_to_look_at(tmp_path: Path) -> None:
    path = tmp_path / "one-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("one/__init__.py", "")
    done = check(path)
    assert (done.returncode, done.stderr) == (1, "no ELF file in what was given\n")
