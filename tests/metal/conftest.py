"""Metal on the host: libraries compiled once per run, shared by the test processes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from support import ROOT

sys.path.insert(0, str(ROOT / "native" / "tests" / "metal_host"))

from metal_gpu import Gpu
from metal_library import Library, schedule
from metal_objc import Objective

SCHEDULES = ("forward", "reverse", "shuffle:1", "shuffle:2")


@pytest.fixture(scope="module", autouse=True)
def _metal_cache(shared_dir: Path) -> Iterator[None]:
    """Where compiled Metal is kept; compiled with all checks, for this folder only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTI_PLUGINS_METAL_CACHE", str(shared_dir / "metal_libraries"))
        patch.setenv("METAL_HOST_CHECK", "1")
        yield


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Library]:
    """``compiled(text)`` is the library of a Metal text."""
    from compile import compile_metal

    folder = tmp_path_factory.mktemp("metal")
    libraries: dict[str, Library] = {}

    def library(text: str) -> Library:
        if text not in libraries:
            output = folder / f"library_{len(libraries)}.so"
            compile_metal(text, output)
            libraries[text] = Library(output)
        return libraries[text]

    return library


@pytest.fixture(params=SCHEDULES)
def each_schedule(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs once per order of threads."""
    with schedule(request.param):
        yield request.param


@pytest.fixture(scope="session")
def stand_in_library(shared_dir: Path) -> Path:
    """The stand-in for Metal, built here and not by CMake."""
    from metal_objc import build_stand_in

    path = shared_dir / "libmetal_stand_in_of_metal_tests.so"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            build_stand_in(path)
    return path


@pytest.fixture
def metal(stand_in_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Objective:
    """An Objective-C runtime of the test's own; misuse is counted, not fatal.

    A copy of the library is loaded as another library: its counters are at 0, and no object lives.
    """
    compiler = ROOT / "native" / "tests" / "metal_host" / "compile.py"
    monkeypatch.setenv("AOTI_PLUGINS_METAL_COMPILER", f"{sys.executable} {compiler}")
    monkeypatch.setenv("AOTI_PLUGINS_METAL_MISUSE", "count")
    return Objective(Path(shutil.copy(stand_in_library, tmp_path)))


@pytest.fixture
def gpu(metal: Objective) -> Iterator[Gpu]:
    with metal.pool():
        gpu = Gpu(metal)
        yield gpu
        gpu.release_all()


@pytest.fixture
def clean(metal: Objective, gpu: Gpu) -> Iterator[None]:
    """No misuse happened in the test."""
    yield
    assert metal.library.metal_stand_in_last_error() == b""
