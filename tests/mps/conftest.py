"""Programs for Apple GPUs: for a Mac, and for Metal's stand-in on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from filelock import FileLock
from macos_support import download, run_tool
from mps_support import HostTarget, stand_in
from support import lower


@pytest.fixture(scope="session", autouse=True)
def _host_target() -> Iterator[None]:
    from aoti_plugins.plugin_system.manager import get_manager

    with get_manager().registered(HostTarget(), "host-target"):
        yield


@pytest.fixture(scope="session")
def mps_programs(
    shared_dir: Path, example_models: dict[str, Callable[[], Any]]
) -> Callable[..., Path]:
    """``mps_programs("mlp", "host")`` is the path of a program for a target, lowered once."""

    def lowered(name: str, target: str = "macos-arm64") -> Path:
        from aoti_plugins import MpsPartitioner

        path = shared_dir / f"{name}-{target}.pte"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                model, inputs = example_models[name]()
                program = lower(model, inputs, partitioner=MpsPartitioner(target=target))
                path.write_bytes(program.buffer)
        return path

    return lowered


@pytest.fixture(scope="module")
def metal(shared_dir: Path) -> Iterator[None]:
    """Metal's stand-in, for the programs that this module runs."""
    with mock.patch.dict(os.environ, stand_in(shared_dir)):
        yield


@pytest.fixture(scope="session")
def macos_executorch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The macOS wheel of executorch."""
    folder = tmp_path_factory.mktemp("macos_executorch")
    return download("AOTI_PLUGINS_MACOS_EXECUTORCH", "executorch==1.5.*", folder)


@pytest.fixture(scope="session")
def macos_libraries(shared_dir: Path, request: pytest.FixtureRequest) -> Path:
    """The folder of our libraries for macOS, built once per run."""
    if path := os.environ.get("AOTI_PLUGINS_MACOS_LIBRARIES"):
        return Path(path)
    output, built = shared_dir / "macos_libraries", shared_dir / "macos_libraries.built"
    with FileLock(f"{output}.lock"):
        if not built.exists():
            run_tool("build_macos.py", request.getfixturevalue("macos_executorch"), output)
            built.touch()
    return output
