"""CUDA programs lowered on this machine, which needs no GPU; once per run, for all processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from support import lower

from aoti_plugins.payload import Payload, decode

TARGETS = ("a100", "h100")


@pytest.fixture(scope="session")
def cuda_programs(
    shared_dir: Path, example_models: dict[str, Callable[[], Any]]
) -> Callable[[str], Path]:
    """``cuda_programs("cnn")`` is the path of a program with code for each of ``TARGETS``."""
    from aoti_plugins import CudaPartitioner

    def lowered(name: str) -> Path:
        path = shared_dir / f"cuda_{name}.pte"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                model, inputs = example_models[name]()
                partitioner = CudaPartitioner(targets=TARGETS)
                path.write_bytes(lower(model, inputs, partitioner=partitioner).buffer)
        return path

    return lowered


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], tuple[list[Payload], dict[str, bytes], list[str]]]:
    """``contents(path)``: payloads of the delegates, blobs by key, ops outside of delegates."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    def read(path: Path) -> tuple[list[Payload], dict[str, bytes], list[str]]:
        file = deserialize_pte_binary(path.read_bytes())
        plan = file.program.execution_plan[0]
        data = file.program.backend_delegate_data
        payloads = [decode(bytes(data[one.processed.index].data)) for one in plan.delegates]
        named = file.named_data
        assert named is not None
        blobs = {
            key: bytes(named.buffers[entry.buffer_index]) for key, entry in named.pte_data.items()
        }
        return payloads, blobs, [f"{op.name}.{op.overload}" for op in plan.operators]

    return read
