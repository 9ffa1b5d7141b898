"""The wheel with the oldest and the newest Python, and between: commands, and a program that runs.

CI's own is 3.11. The others are unpacked from packages of distributions that have them, without
PyTorch: what lowering needs of Python is checked by `make lint`.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from support import ROOT
from wheels_support import OtherPython, debian_root, download, parts, runs_as_eager, unpack

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the wheel that is built here is for x86-64"
)

_DEBIAN = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
# Ubuntu's key of 2018, of fingerprint F6ECB3762474EDA9D21B7022871920D1991BC93C.
_UBUNTU = f"deb [signed-by={ROOT / 'tests' / 'data' / 'ubuntu-archive-2018.gpg'}]"
# Who has which.
SOURCES = {
    "3.10": f"{_UBUNTU} http://archive.ubuntu.com/ubuntu jammy main universe",
    "3.12": f"{_UBUNTU} http://archive.ubuntu.com/ubuntu noble main universe",
    "3.13": f"{_DEBIAN} http://deb.debian.org/debian trixie main",
}
# What the wheel requires but for PyTorch, and what that requires.
NEEDED = (
    "click",
    "executorch==1.5.*",
    "numpy",
    "pluggy",
    "pyelftools",
    "rich",
    "markdown-it-py",
    "mdurl",
    "pygments",
)


@pytest.fixture(scope="session", params=SOURCES)
def python(request: pytest.FixtureRequest, shared_dir: Path, wheel: Path) -> OtherPython:
    version = request.param
    work = parts(shared_dir)
    there = OtherPython(version, work / f"root-python{version}", shared_dir / f"site-{version}")
    with FileLock(f"{there.site}.lock"):
        packages = (f"python{version}", "libstdc++6")
        debian_root("amd64", there.root, packages, sources=SOURCES[version])
        if not (there.site / ".unpacked").exists():
            wheels = download("x86_64", work / f"wheels-{version}", NEEDED, version)
            unpack([wheel, *wheels], there.site)
            (there.site / ".unpacked").touch()
    return there


def test_every_module_compiles(python: OtherPython) -> None:
    done = python.run("-W", "error", "-m", "compileall", "-q", "-f", python.site / "aoti_plugins")
    assert done.returncode == 0, done.stdout + done.stderr


def test_commands(python: OtherPython) -> None:
    help_ = python.run("-W", "error", "-m", "aoti_plugins", "--help")
    assert help_.returncode == 0, help_.stderr
    assert "Usage:" in help_.stdout
    doctor = python.run("-W", "error", "-m", "aoti_plugins", "doctor", "--run-only", "--json")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert json.loads(doctor.stdout)


def test_a_program_runs(
    python: OtherPython,
    lowered_programs: Callable[[str], Path],
    example_models: dict[str, Callable[[], Any]],
    tmp_path: Path,
) -> None:
    program = lowered_programs("mlp")
    _, version = runs_as_eager(python.run, program, example_models["mlp"](), tmp_path)
    assert version == python.version
