"""Take the generated C++ from Inductor before Inductor compiles it.

Inductor's own compile step bakes in the flags of this host (``-march=native``, line tables, OpenMP,
libtorch's link names) and writes next to its cache. A blob needs other flags, so the step is
replaced by one that keeps the sources; ``aoti_plugins.lowering.artifacts`` turns them into a shared
object. Tested with torch 2.11 and 2.13. The patch can go when ``torch._inductor`` offers the
sources without compiling them (``package_cpp_only`` merges wrapper and kernels and still fixes the
flags).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch


@dataclass(frozen=True)
class GeneratedConstant:
    """One constant that the generated code loads.

    Attributes:
        name: Inductor's own name, a C identifier.
        fqn: fully qualified name in the exported program, or Inductor's name where it made the
            constant itself.
        value: the tensor; shares storage with the program's own where Inductor did not change it.
        mutated: whether the generated code writes to it.
    """

    name: str
    fqn: str
    value: torch.Tensor
    mutated: bool


@dataclass
class GeneratedCode:
    """What Inductor made of one graph: two C++ translation units and the constants that they need.

    Attributes:
        wrapper: source of the wrapper (allocations, calls, the AOTInductor interface).
        kernels: source of the kernels; empty if the wrapper calls none of its own.
        constants: in the order of the wrapper's table.
        proxy_ops: ops that the wrapper calls through the proxy executor, by qualified name; no
            runtime without libtorch has one.
        files: other files that the wrapper loads at run time, for instance GPU binaries.
    """

    wrapper: str = ""
    kernels: str = ""
    constants: tuple[GeneratedConstant, ...] = ()
    proxy_ops: tuple[str, ...] = ()
    files: tuple[str, ...] = field(default_factory=tuple)


@contextlib.contextmanager
def captured_code() -> Iterator[GeneratedCode]:
    """Fill the yielded object instead of compiling, for one ``aot_compile`` in the block."""
    from torch._inductor.codecache import AotCodeCompiler

    captured = GeneratedCode()

    def keep_sources(
        graph: Any,
        wrapper_code: str,
        kernel_code: str,
        serialized_extern_kernel_nodes: str | None,
        *,
        device_type: str,
        additional_files: list[str],
    ) -> list[Any]:
        del device_type
        captured.wrapper = wrapper_code
        captured.kernels = kernel_code
        captured.constants = _constants_of(graph)
        captured.proxy_ops = _proxy_ops_of(graph, serialized_extern_kernel_nodes)
        captured.files = tuple(additional_files)
        return []

    with mock.patch.object(AotCodeCompiler, "compile", staticmethod(keep_sources)):
        yield captured


def _constants_of(graph: Any) -> tuple[GeneratedConstant, ...]:
    return tuple(
        GeneratedConstant(
            name=name,
            fqn=graph.allocated_constant_name.get(name, name),
            value=_with_layout_of(graph.get_original_value_of_constant(name), used),
            mutated=name in graph.mutated_buffers,
        )
        for name, used in graph.constants.items()
        if name not in graph.folded_constants
    )


def _with_layout_of(original: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    """The original's values in the layout that the generated code assumes."""
    if original.size() == used.size() and original.stride() == used.stride():
        return original
    return used


def _proxy_ops_of(graph: Any, serialized: str | None) -> tuple[str, ...]:
    from torch._inductor.virtualized import V

    nodes = V.extern_kernel_nodes if serialized else []
    return tuple(sorted({str(node.node.target) for node in nodes}))
