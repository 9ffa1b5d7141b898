"""Sample distributions, built and installed by pip into folders that only one test sees."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aoti_plugins.plugin_system.manager import PluginManager

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture(scope="session")
def install_sample(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Install the sample of a name, once per session, and return the folder it is in."""

    @functools.cache
    def install(sample: str) -> Path:
        work = tmp_path_factory.mktemp(sample)
        source, target = work / "source", work / "site"
        shutil.copytree(SAMPLES / sample, source)  # a build leaves files beside the sources
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        command += ["--no-build-isolation", "--target", str(target), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return target

    return install


@pytest.fixture
def installed(
    install_sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """Make samples look installed in this process, for one test."""
    monkeypatch.delenv("AOTI_PLUGINS_BLOCK", raising=False)
    before = set(sys.modules)

    def add(*samples: str) -> None:
        for sample in samples:
            monkeypatch.syspath_prepend(str(install_sample(sample)))

    yield add
    for name in set(sys.modules) - before:
        if name.startswith(("acme_", "plugin_a", "plugin_b")):
            del sys.modules[name]


@pytest.fixture
def load() -> Callable[..., PluginManager]:
    """Load the installed plugins except our own, so that only the samples count."""

    def load_samples(*block: str) -> PluginManager:
        return PluginManager(block=("aoti-plugins", *block))

    return load_samples
