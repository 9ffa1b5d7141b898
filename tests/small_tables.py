"""Weights of few bits of which programs take rows, in all forms."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import exportable_weights
import small_weight_cases
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Interpreter

from aoti_plugins.cuda.small_weights.rows_of_tiles import DECOMPOSITIONS
from aoti_plugins.language.gguf.small_weights import GgufBlocks
from aoti_plugins.lowering.decompositions import CUDA_DECOMPOSITIONS, of_libraries

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from torchao.quantization import quantize_

INTX = tuple(name for name in small_weight_cases.CONFIGS if name != "int8 by a cast")
"""torchao's, that it dequantises."""


def _of_torchao(name: str, n: int, k: int, dtype: torch.dtype) -> Any:
    linear = nn.Linear(k, n, dtype=dtype).requires_grad_(False)
    quantize_(linear, small_weight_cases.CONFIGS[name]())
    return linear.weight


def _blocks(n: int, k: int, dtype: torch.dtype) -> Any:
    """Blocks whose embedding takes rows before the program is exported."""
    given = exportable_weights.gguf_of(n, k, dtype, "q4_k")
    return GgufBlocks(given.raw, given.ggml_type, dtype)


TABLES: dict[str, Callable[[int, int, torch.dtype], Any]] = {
    **{name: lambda n, k, dtype, name=name: _of_torchao(name, n, k, dtype) for name in INTX},
    **exportable_weights.FORMS,
    "q4_k, rows": _blocks,
}
"""By name; those of torchao's ``int4`` have another name than ExecuTorch's."""


def values_of(weight: Any) -> Tensor:
    """What a table stands for, in float64."""
    is_torchaos = hasattr(weight, "target_dtype")
    return (small_weight_cases if is_torchaos else exportable_weights).values_of(weight)


class Plain(Interpreter):
    """Runs a program's graph in plain PyTorch, as code is generated of it.

    Attributes:
        largest: the most floats of a tensor that was computed.
    """

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program.module())
        self._table = {**CUDA_DECOMPOSITIONS, **DECOMPOSITIONS, **of_libraries()}
        self.largest = 0

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """By the decomposition of an op, where it has one."""
        found = self._table.get(target, target)(*args, **kwargs)
        found = target(*args, **kwargs) if found is NotImplemented else found
        if isinstance(found, Tensor) and found.is_floating_point():
            self.largest = max(self.largest, found.numel())
        return found
