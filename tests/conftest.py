"""Fixtures that share compiled programs between tests, as lowering costs seconds, and run code."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import settings
from support import ROOT, load_example, long_tests, lower
from torch.export import ExportedProgram

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What ``long_tests.txt`` lists is marked, before pytest looks at markers."""
    listed = set(long_tests())
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if listed & {name, name.partition("[")[0], name.partition("::")[0]}:
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.listed)
    if "torch" in sys.modules:
        _look_for_composite_ops_once()


def _look_for_composite_ops_once() -> None:
    """A lowering does so some 160 times, for half a second together (an AMD EPYC).

    Ops that tests register later are found by the use that tests make of them.
    """
    from torch._export import utils

    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """The command line sets levels of loggers; give them back."""
    loggers = [logging.getLogger(name) for name in (None, "aoti_plugins", "executorch")]
    before = [(one.level, one.propagate, list(one.handlers)) for one in loggers]
    yield
    for logger, state in zip(loggers, before, strict=True):
        logger.level, logger.propagate, logger.handlers[:] = state


@pytest.fixture(scope="session")
def example_models() -> dict[str, Callable[[], Any]]:
    """The models of examples/models.py by name."""
    return load_example("models").MODELS


@pytest.fixture(scope="session")
def shared_dir(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all test processes of one run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def lowered_programs(
    shared_dir: Path, example_models: dict[str, Callable[[], Any]]
) -> Callable[[str], Path]:
    """``lowered_programs("mlp")`` is the path of the program, lowered once per run."""

    def lowered(name: str) -> Path:
        path = shared_dir / f"{name}.pte"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                model, inputs = example_models[name]()
                path.write_bytes(lower(model, inputs).buffer)
        return path

    return lowered


@pytest.fixture(scope="session")
def lowered_llamas(shared_dir: Path) -> Callable[..., Path]:
    """``lowered_llamas(prefill=24, decode=1)`` is the path of a program with these methods.

    They are of the model in ``tiny_llama.py``, for the CPU, each with the most tokens that a call
    may have; with the constant methods that ExecuTorch's runner asks for. Lowered once per run.
    """

    def lowered(**longest: int) -> Path:
        path = shared_dir / f"llama_{'_'.join(f'{k}{v}' for k, v in longest.items())}.pte"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                from executorch.exir import to_edge_transform_and_lower
                from tiny_llama import export_methods, runner_constants

                from aoti_plugins import CpuPartitioner

                edge = to_edge_transform_and_lower(
                    export_methods(**longest),
                    partitioner=[CpuPartitioner()],
                    constant_methods=runner_constants(max(longest.values())),
                )
                path.write_bytes(edge.to_executorch().buffer)
        return path

    return lowered


@pytest.fixture(scope="session")
def cpp_runner(shared_dir: Path) -> Path:
    """``examples/cpp_runner``, built once per run against the installed package."""
    return _built_example("cpp_runner", shared_dir)


@pytest.fixture(scope="session")
def cpp_generate(shared_dir: Path) -> Path:
    """``examples/cpp_generate``, likewise."""
    return _built_example("cpp_generate", shared_dir)


def _built_example(name: str, shared_dir: Path) -> Path:
    from aoti_plugins.runtime import cmake_dir, executorch_library_dir

    build = shared_dir / name
    # PyPI's CMake lies beside the interpreter; one that the system has may be too old.
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    cmake = shutil.which("cmake", path=places)
    assert cmake, "the tests need CMake: pip install cmake"
    with FileLock(f"{build}.lock"):
        if not (build / name).exists():
            configure = [
                *(cmake, "-S", str(ROOT / "examples" / name), "-B", str(build)),
                "-DCMAKE_BUILD_TYPE=Release",
                f"-Daoti_plugins_DIR={cmake_dir()}",
                f"-Dexecutorch_DIR={executorch_library_dir() / 'cmake' / 'executorch'}",
            ]
            subprocess.run(configure, check=True)
            subprocess.run([cmake, "--build", str(build)], check=True)
    return build / name


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """Run a script in a fresh interpreter and return what it printed; fails if it fails."""

    def run(
        script: str, *arguments: object, prefix: tuple[str, ...] = (), **environment: str
    ) -> str:
        done = subprocess.run(
            [*prefix, sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture
def called() -> Callable[[ExportedProgram], list[str]]:
    """The ops that a program calls, in order."""

    def names(program: ExportedProgram) -> list[str]:
        targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
        return [target._schema.name for target in targets if hasattr(target, "_schema")]

    return names
