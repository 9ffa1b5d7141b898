"""Programs for several ranks, lowered once per run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from rank_programs import export_perceptron

from aoti_plugins import CpuPartitioner


@pytest.fixture(scope="session")
def lowered_ranks(shared_dir: Path) -> Callable[[str, Any], Path]:
    """``lowered_ranks(name, export)`` is the path of a program; ``export()`` gives it, once."""

    def lowered(name: str, export: Callable[[], Any]) -> Path:
        folder = shared_dir / f"ranks_{name}"
        path = folder / f"{name}.pte"
        with FileLock(f"{folder}.lock"):
            if not path.exists():
                from executorch.exir import to_edge_transform_and_lower

                partitioner = CpuPartitioner(external_data=name)
                edge = to_edge_transform_and_lower(export(), partitioner=[partitioner])
                program = edge.to_executorch()
                folder.mkdir()
                program.write_tensor_data_to_file(str(folder))
                path.write_bytes(program.buffer)
        return path

    return lowered


@pytest.fixture(scope="session")
def perceptron(lowered_ranks: Callable[[str, Any], Path]) -> Path:
    """The program of ``export_perceptron``, for two ranks."""
    return lowered_ranks("perceptron", export_perceptron)


@pytest.fixture(scope="session")
def other_perceptron(lowered_ranks: Callable[[str, Any], Path]) -> Path:
    """The same with other weights."""
    return lowered_ranks("other_perceptron", lambda: export_perceptron(2.0))
