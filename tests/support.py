"""What several tests need and is no fixture."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aoti_plugins.hooks import hookimpl

ROOT = Path(__file__).parent.parent


def older_than(major: int, minor: int) -> bool:
    """Whether the PyTorch that is there is older than a version."""
    found = tuple(map(int, version("torch").split(".")[:2]))
    return found < (major, minor)


# Executorch 1.5's Python extension is built against the tensors of torch 2.13; ours needs none.
needs_executorchs_extension = pytest.mark.skipif(
    older_than(2, 13), reason="executorch's extension does not fit torch before 2.13"
)


class CdistOutside:
    """A plugin that takes the decomposition of distances away, so that they stay outside.

    ExecuTorch has a kernel for them.
    """

    @hookimpl
    def aoti_decompositions(self, device: str) -> dict[Any, Any]:
        """It leaves them to Inductor, which would call a kernel of libtorch."""
        import torch

        del device
        return {torch.ops.aten._cdist_forward.default: lambda *inputs: NotImplemented}


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


def long_tests() -> list[str]:
    """Tests that take long, by name: what ``long_tests.txt`` lists."""
    lines = (ROOT / "tests" / "long_tests.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def cache_without_blobs(folder: Path) -> str:
    """A compile cache that shares precompiled headers, which take minutes, but knows no blob."""
    from aoti_plugins.lowering.artifacts.cache_folder import private_folder

    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("headers", "objects"):
        (folder / kind).symlink_to(private_folder(kind))
    return str(folder)


def lower(model: Any, inputs: tuple[Any, ...], **options: Any) -> Any:
    """Export a module and lower it, for the CPU unless another partitioner is given.

    Args:
        model: the module.
        inputs: its example inputs.
        options: ``dynamic_shapes`` goes to the export, ``config`` to ``to_executorch``,
            ``partitioner`` is one; the others go to ``CpuPartitioner``.

    Returns:
        ExecuTorch's program manager.
    """
    import torch
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner

    dynamic_shapes = options.pop("dynamic_shapes", None)
    config = options.pop("config", None)
    partitioner = options.pop("partitioner", None) or CpuPartitioner(**options)
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
    return to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch(config)


def weights_nbytes(program: bytes) -> int:
    """What a program holds beside its code."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    file = deserialize_pte_binary(bytes(program))
    return sum(
        len(file.named_data.buffers[entry.buffer_index])
        for key, entry in file.named_data.pte_data.items()
        if key.endswith("_weights_blob")
    )
