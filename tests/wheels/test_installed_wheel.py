"""The wheel for this machine, without CUDA: what is in it, and that it needs no compiler."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from packaging.licenses import canonicalize_license_expression
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename
from support import ROOT
from wheels_support import PLATFORM, runs_as_eager, tool

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the wheel that is built here is for x86-64"
)


@pytest.fixture(scope="session")
def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="session")
def environment(wheel: Path, shared_dir: Path) -> Path:
    """A virtual environment with the wheel alone, and what it needs of this one."""
    folder = shared_dir / "without_compiler"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
            python = folder / "bin" / "python"
            options = ["--no-deps", "--no-index", "--quiet"]
            command = [sys.executable, "-m", "pip", "--python", str(python), "install", *options]
            subprocess.run([*command, str(wheel)], check=True)
            (site,) = (folder / "lib").glob("python*/site-packages")
            # Paths alone: .pth files there, which name this checkout, are not read.
            needed = [path for path in sys.path if path.endswith("site-packages")]
            (site / "needed.pth").write_text("\n".join(needed) + "\n")
    return folder


def run_there(environment: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {
        "PATH": str(environment / "bin"),
        "AOTI_PLUGINS_LIBRARY_DIR": "",
        "COLUMNS": "160",
    }
    program, *arguments = command
    return subprocess.run(
        [str(environment / "bin" / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=variables,
        cwd=environment,
    )


def test_name(wheel: Path) -> None:
    name, _, _, tags = parse_wheel_filename(wheel.name)
    assert (name, tags) == ("aoti-plugins", {Tag("py3", "none", PLATFORM)})


def test_the_record_is_right(contents: dict[str, bytes]) -> None:
    (record,) = (name for name in contents if name.endswith("/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(contents[record].decode()))}
    assert set(rows) == set(contents)
    for name, (digest, nbytes) in rows.items():
        if name != record:
            found = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=")
            assert (digest, nbytes) == (f"sha256={found.decode()}", str(len(contents[name])))


def test_licences_and_bill_of_materials(contents: dict[str, bytes]) -> None:
    (place,) = (name for name in contents if name.endswith("/METADATA"))
    folder = place.removesuffix("/METADATA")
    metadata = message_from_bytes(contents[place])
    licence = metadata["License-Expression"]
    assert canonicalize_license_expression(licence) == licence == "BSD-3-Clause AND MPL-2.0"
    for name in metadata.get_all("License-File"):
        assert contents[f"{folder}/licenses/{name}"]
    assert b"Mozilla Public License" in contents[f"{folder}/licenses/third_party/eigen.txt"]
    bill = json.loads(contents[f"{folder}/sboms/aoti-plugins.cdx.json"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    names = [one["name"] for one in bill["components"]]
    assert {"eigen", "executorch", "gcc-runtime"} <= set(names)


def test_nothing_says_where_it_was_built(contents: dict[str, bytes]) -> None:
    for name, content in contents.items():
        for folder in (ROOT, Path(sys.prefix), Path.home() / ".cache"):
            assert str(folder).encode() + b"/" not in content, name


def test_packing_again_gives_the_same_bytes(
    contents: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer = tool("pack_wheel")
    # Faster; what zopfli writes depends on nothing but the bytes, either.
    monkeypatch.setattr(packer.zopfli, "ZipFile", lambda *options, **_: zipfile.ZipFile(*options))
    library = "aoti_plugins/lib/libaoti_plugins_runner.so"
    wheels = []
    for name in ("first", "again"):
        path = tmp_path / name / "runner.so"
        path.parent.mkdir()
        path.write_bytes(contents[library])
        wheels.append(packer.pack({path: library.partition("/")[2]}, path.parent, PLATFORM, []))
    first, again = wheels
    assert first.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "gpus", "reason"),
    [
        (("windows",), None, "no wheel is made for windows; only for manylinux"),
        ((PLATFORM,), "90", "wheels have kernels for all GPUs, but AOTIP_CUDA_GPUS is set"),
    ],
)
def test_what_is_no_build_of_wheels_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], gpus: str | None, reason: str
) -> None:
    command = [sys.executable, str(ROOT / "native" / "tools" / "build_wheels.py"), str(tmp_path)]
    environment = {**os.environ, "AOTIP_CUDA_GPUS": gpus or ""}
    if gpus is None:
        del environment["AOTIP_CUDA_GPUS"]
    done = subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert reason in done.stderr


def test_a_large_wheel_is_refused(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer = tool("pack_wheel")
    large = Path(shutil.copy(wheel, tmp_path))
    packer.check_size(large)
    monkeypatch.setattr(packer, "MOST_NBYTES", large.stat().st_size - 1)
    most = r"are allowed; most are in:\n +\d+ aoti_plugins/lib/libexecutorch_backend_aoti\S*.so"
    with pytest.raises(SystemExit, match=most):
        packer.check_size(large)
    assert not large.exists()


def test_doctor_without_a_compiler(environment: Path) -> None:
    done = run_there(environment, "aoti-plugins", "doctor", "--run-only", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(environment) in done.stdout
    assert str(ROOT) + "/aoti_plugins" not in done.stdout


def test_a_program_runs_without_a_compiler(
    environment: Path,
    lowered_programs: Callable[[str], Path],
    example_models: dict[str, Callable[[], Any]],
    tmp_path: Path,
) -> None:
    def python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return run_there(environment, "python", *arguments)

    program = lowered_programs("mlp")
    file, _ = runs_as_eager(python, program, example_models["mlp"](), tmp_path)
    assert Path(file).is_relative_to(environment)
