"""Run Inductor's autotuning code without data.

Ahead of time, Inductor writes a Python block that makes example tensors and calls every kernel, so
that each is compiled and its best configuration is found. Without a GPU the tensors are fake; what
the calls measure is answered by ``config_choice``.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from aoti_plugins.lowering.inductor.patching import replacement

_GUARDS = torch._C._dynamo.guards
_EMPTY = "_empty_strided_cuda"


@replacement(
    "torch._inductor.codegen.wrapper.PythonWrapperCodegen.generate_and_run_autotune_block",
    "torch._C._dynamo.guards._empty_strided_cuda",
    why="Inductor's autotuning code makes tensors on the GPU.",
    until="aot_compile takes a target",
)
def autotune_block_on_fakes(original: Any, self: Any) -> Any:
    """Run the autotuning block on fake tensors.

    Workspaces are made by a function of PyTorch's that fakes do not see; they are faked, too.
    """
    with FakeTensorMode(allow_non_fake_inputs=True), mock.patch.object(_GUARDS, _EMPTY, _empty):
        return original(self)


def _empty(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")
