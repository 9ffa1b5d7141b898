"""Importing the package is cheap, and its public names arrive when they are used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import aoti_plugins

REPOSITORY = Path(__file__).parents[2]
HEAVY = ("torch", "executorch", "numpy", "pluggy", "click", "rich")
IMPORT_SECONDS = 0.5

MEASURE = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import aoti_plugins
seconds = time.perf_counter() - start
import json
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_is_cheap() -> None:
    runs = [json.loads(run_python(MEASURE)) for _ in range(3)]
    seconds = min(seconds for seconds, _ in runs)
    print(f"import aoti_plugins: {seconds * 1e3:.2f} ms, modules: {runs[0][1]}")
    assert not {name.split(".")[0] for name in runs[0][1]}.intersection(HEAVY)
    assert seconds < IMPORT_SECONDS


@pytest.mark.parametrize(
    "module", ["blob_names", "dtypes", "errors", "hooks", "manager", "payload", "types"]
)
def test_modules_without_torch(module: str) -> None:
    code = f"import sys, aoti_plugins.{module}; print(*sys.modules)"
    assert not {"torch", "executorch"}.intersection(run_python(code).split())


@pytest.mark.parametrize("name", aoti_plugins.__all__)
def test_public_names(name: str) -> None:
    value = getattr(aoti_plugins, name)
    assert name in dir(aoti_plugins)
    if name not in ("__version__", "hookimpl"):
        assert value.__name__ == name
        assert value.__doc__


def test_all_is_complete() -> None:
    assert {*aoti_plugins._MODULE_OF, "__version__"} == set(aoti_plugins.__all__)
    assert aoti_plugins.__all__ == sorted(aoti_plugins.__all__)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError) as caught:
        aoti_plugins.CpuPartioner  # type: ignore[attr-defined]  # noqa: B018
    assert str(caught.value) == "module 'aoti_plugins' has no attribute 'CpuPartioner'"


def test_version_without_a_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert aoti_plugins._version() == "0+unknown"
