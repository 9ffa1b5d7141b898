"""What programs for the CPU became, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.export import export
from torch.utils._pytree import tree_leaves

from aoti_plugins import CpuPartitioner
from aoti_plugins.runtime import Program


@pytest.fixture
def run() -> Callable[..., list[Tensor]]:
    """Lower a module for this machine and call the program twice; what the second call returned."""

    def lowered(module: nn.Module, *inputs: Any, **options: Any) -> list[Tensor]:
        exported = export(module, inputs, **options)
        program = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
        with Program(bytes(program.to_executorch().buffer)) as loaded:
            flat = tree_leaves(inputs)
            loaded(*flat)
            return [torch.as_tensor(value).clone() for value in loaded(*flat)]

    return lowered
