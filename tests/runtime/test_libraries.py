"""Finding and loading native libraries: what is missing is named, with what to do."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aoti_plugins import native_files
from aoti_plugins.cpu.device import CPU
from aoti_plugins.errors import RuntimeLoadError
from aoti_plugins.runtime import _libraries, backends, register


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_needs_neither_torch_nor_executorch() -> None:
    code = (
        "import sys, aoti_plugins.runtime; "
        "print([n for n in sys.modules if n.split('.')[0] in ('torch', 'executorch', 'numpy')])"
    )
    assert python("-c", code).stdout.strip() == "[]"


def test_register_is_idempotent() -> None:
    register()
    before = backends()
    assert before.count("AotiCpuBackend") == 1
    register("cpu")
    assert backends() == before


def test_a_broken_library_of_another_package_harms_no_other_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "libacme.so"
    broken.write_text("no library")
    acme = dataclasses.replace(CPU, name="acme", libraries=(*CPU.libraries, broken))
    monkeypatch.setattr(_libraries, "delegates", lambda: {"acme": acme, "cpu": CPU})
    _libraries.register_all()
    assert f"for device 'acme' of another package cannot run: {broken} does not load" in caplog.text
    assert "AotiCpuBackend" in backends()


def test_unknown_device() -> None:
    with pytest.raises(
        RuntimeLoadError, match=r"device 'tpu' on this system; there is one for cpu"
    ):
        register("tpu")


def test_build_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native_files.LIBRARY_DIR_VARIABLE, str(tmp_path))
    (tmp_path / native_files.RUNNER).touch()
    assert native_files.library(native_files.RUNNER) == tmp_path / native_files.RUNNER


def test_missing_library() -> None:
    with pytest.raises(RuntimeLoadError) as caught:
        native_files.library("libnone.so")
    message = str(caught.value)
    assert message.startswith("libnone.so is in none of these folders:\n  - ")
    assert "pip install --force-reinstall --no-deps aoti-plugins" in message
    assert native_files.LIBRARY_DIR_VARIABLE in message


def test_library_that_does_not_load(tmp_path: Path) -> None:
    path = tmp_path / "broken.so"
    path.write_bytes(b"no library")
    with pytest.raises(RuntimeLoadError, match=rf"{path} does not load: .*aoti-plugins doctor"):
        _libraries.load(path)


def test_executorch_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeLoadError, match=r"not installed: pip install 'executorch==1.5.\*'"):
        _libraries.executorch_library_dir()


def test_executorch_without_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    with pytest.raises(RuntimeLoadError, match=rf"no libexecutorch.so in {tmp_path}/lib: only the"):
        _libraries.executorch_library_dir()


def test_main_prints_folders() -> None:
    found = python("-m", "aoti_plugins.runtime", "--library-dir", "--executorch-cmake-dir")
    assert found.returncode == 0, found.stderr
    library_dir, executorch_cmake_dir = map(Path, found.stdout.split())
    assert (library_dir / native_files.RUNNER).exists()
    assert (executorch_cmake_dir / "executorch-config.cmake").exists()


def test_main_needs_an_option() -> None:
    found = python("-m", "aoti_plugins.runtime")
    assert found.returncode == 2
    assert "choose at least one option" in found.stderr
