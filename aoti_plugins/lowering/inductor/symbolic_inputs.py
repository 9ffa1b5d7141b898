"""Let numbers be inputs of a graph.

``torch._inductor.aot_compile`` gives Inductor ``None`` in place of every input that is no tensor,
in two places: an exported program has such inputs only where its graph does not use them. A
partition also gets sizes and positions that the rest of the program computes. Inductor can generate
code for them (a tensor of one element is passed), so here it gets them as they are. The checks of
inputs that a wrapper can be asked for by an environment variable know tensors only; a graph with
such inputs gets none. The delegate checks all inputs before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import sympy
import torch
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.inductor.patching import patch, replaced

_SYMBOLIC = (torch.SymInt, torch.SymFloat)
_CHECKS = "generate_input_output_runtime_checks"
_NO_CHECKS = """
static bool _check_aoti_runtime_check_inputs_env() { return false; }
static void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
"""


@patch(
    "torch._inductor.compile_fx._aoti_flatten_inputs(gm, args, kwargs, options)",
    "torch._inductor.compile_fx._extract_inputs_from_exported_gm(gm, example_inputs_)",
    "torch._inductor.codegen.cpp_wrapper_cpu.CppWrapperCpu.generate_input_output_runtime_checks",
    "torch._inductor.codegen.cpp_wrapper_cpu.CppWrapperCpu.codegen_model_constructor",
    why="Numbers among the inputs of a graph are lost.",
    until="aot_compile keeps symbolic inputs",
)
def symbolic_inputs() -> Iterator[None]:
    """Keep symbolic numbers among the inputs, for each ``aot_compile`` in the block."""
    from torch._inductor import compile_fx
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    with (
        replaced(compile_fx, "_aoti_flatten_inputs", _flatten),
        replaced(compile_fx, "_extract_inputs_from_exported_gm", _extract),
        replaced(CppWrapperCpu, _CHECKS, _check_tensors),
        replaced(CppWrapperCpu, "codegen_model_constructor", _name_like_tensors),
    ):
        yield


def _flatten(
    original: Any, module: torch.fx.GraphModule, args: Any, kwargs: Any = None, **options: Any
) -> tuple[list[Any], dict[str, Any]]:
    flat, changed = original(module, args, kwargs, **options)
    return _kept(pytree.tree_leaves((args, kwargs or {})), flat), changed


def _extract(original: Any, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
    return _kept(inputs, original(module, inputs))


def _kept(given: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    return [
        one if isinstance(one, _SYMBOLIC) else other
        for one, other in zip(given, found, strict=True)
    ]


def _check_tensors(original: Any, wrapper: Any) -> None:
    if not _symbolic_names():
        original(wrapper)
        return
    wrapper.prefix.splice(_NO_CHECKS)


def _name_like_tensors(original: Any, wrapper: Any) -> None:
    """The constructor, which writes down the inputs' names, allows for tensors only."""
    from torch._inductor.virtualized import V

    with mock.patch.dict(V.graph.graph_inputs, dict.fromkeys(_symbolic_names())):
        original(wrapper)


def _symbolic_names() -> list[str]:
    from torch._inductor.virtualized import V

    inputs = V.graph.graph_inputs.items()
    return [name for name, value in inputs if isinstance(value, sympy.Expr)]
