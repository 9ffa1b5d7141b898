"""Fixtures that share compiled programs between tests: lowering costs seconds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).parent.parent


def load_example(name: str) -> ModuleType:
    """Import one file of examples/, which is no package."""
    spec = importlib.util.spec_from_file_location(
        f"examples_{name}", ROOT / "examples" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def lower(model: Any, inputs: tuple[Any, ...], **options: Any) -> Any:
    """Export a module and lower it whole for the CPU.

    Args:
        model: the module.
        inputs: its example inputs.
        options: ``dynamic_shapes`` goes to the export, the others to the partitioner.

    Returns:
        ExecuTorch's program manager.
    """
    import torch
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner

    dynamic_shapes = options.pop("dynamic_shapes", None)
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
    return to_edge_transform_and_lower(
        exported, partitioner=[CpuPartitioner(**options)]
    ).to_executorch()
