"""Take the generated C++ from Inductor before Inductor compiles it.

Inductor's own compile step bakes in the flags of this host (``-march=native``, line tables, OpenMP,
libtorch's link names) and writes next to its cache. A blob needs other flags, so the step is
replaced by one that keeps the sources; ``aoti_plugins.lowering.artifacts`` turns them into a shared
object. Tested with torch 2.11 to 2.15. The patch can go when ``torch._inductor`` offers the
sources without compiling them (``package_cpp_only`` merges wrapper and kernels and still fixes the
flags).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

from aoti_plugins.lowering.inductor.checked_calls import with_checked_calls
from aoti_plugins.lowering.inductor.kept_failures import with_kept_failures
from aoti_plugins.lowering.inductor.kernel_sites import KernelSite, with_marks
from aoti_plugins.lowering.inductor.model_interface import note_interface
from aoti_plugins.lowering.inductor.patching import patch
from aoti_plugins.lowering.inductor.short_wrapper import shortened


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


@dataclass(frozen=True)
class GpuKernel:
    """One compiled GPU kernel.

    Attributes:
        name: the wrapper's name for it.
        symbol: the symbol under which the wrapper finds its image.
        binary: the machine code, an ELF file.
        assembly: the assembly that it was made from; for CUDA, PTX.
        config: what was chosen for it: block sizes, warps, stages.
        shared_nbytes: dynamic shared memory of a block.
        fuses_products: whether the assembler may round a product that is added to only once.
    """

    name: str
    symbol: str
    binary: bytes
    assembly: str
    config: Mapping[str, Any]
    shared_nbytes: int
    fuses_products: bool = True


@dataclass
class GeneratedCode:
    """What Inductor made of one graph: two C++ translation units and the constants that they need.

    Attributes:
        wrapper: source of the wrapper (allocations, calls, the AOTInductor interface).
        kernels: source of the kernels; empty if the wrapper calls none of its own.
        constants: in the order of the wrapper's table.
        proxy_ops: ops that the wrapper calls through the proxy executor, by qualified name; no
            runtime without libtorch has one.
        files: other files that the wrapper loads at run time.
        gpu_kernels: what the wrapper launches, to be embedded in the blob.
        sites: the places of the wrapper that call kernels and say so, in its order.
    """

    wrapper: str = ""
    kernels: str = ""
    constants: tuple[GeneratedConstant, ...] = ()
    proxy_ops: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    gpu_kernels: tuple[GpuKernel, ...] = ()
    sites: tuple[KernelSite, ...] = ()


FindValue = Callable[[str, torch.Tensor], torch.Tensor]
"""The value of a constant, from its FQN and the tensor that Inductor has for it."""


@patch(
    "torch._inductor.codecache.AotCodeCompiler.compile("
    "graph, wrapper_code, kernel_code, serialized_extern_kernel_nodes, device_type, "
    "additional_files)",
    "torch._inductor.codecache.CudaKernelParamCache.set("
    "key, params, cubin, bin_type, asm, asm_type)",
    why="Inductor's own compile step bakes in this host's flags and libtorch.",
    until="Inductor offers its sources without compiling them",
)
def captured_code(
    find_value: FindValue = lambda fqn, tensor: tensor,
    sites: Sequence[KernelSite] = (),
) -> Iterator[GeneratedCode]:
    """Fill the yielded object instead of compiling, for one ``aot_compile`` in the block.

    Args:
        find_value: finds the real value where Inductor worked on a fake tensor.
        sites: what ``kernel_sites`` yields, where that is in force.
    """
    from torch._inductor.codecache import AotCodeCompiler, CudaKernelParamCache

    captured = GeneratedCode()
    compiled: dict[str, GpuKernel] = {}
    original_set = CudaKernelParamCache.set

    def keep_kernel(
        key: str, params: dict[str, Any], binary: bytes, bin_type: str, asm: str, *rest: Any
    ) -> None:
        compiled[key] = GpuKernel(
            name=key,
            symbol=f"__{key}_start",
            binary=binary,
            assembly=asm,
            config=params["config"],
            shared_nbytes=params["shared_mem"],
            fuses_products=params.get("triton_meta", {}).get("enable_fp_fusion", True),
        )
        original_set(key, params, binary, bin_type, asm, *rest)

    def keep_sources(
        graph: Any,
        wrapper_code: str,
        kernel_code: str,
        serialized_extern_kernel_nodes: str | None,
        *,
        device_type: str,
        additional_files: list[str],
    ) -> list[Any]:
        note_interface(wrapper_code, device_type)
        left_out = {*graph.removed_buffers, *graph.inplaced_to_remove}
        marked, captured.sites = with_marks(wrapper_code, sites, left_out)
        captured.wrapper = shortened(with_checked_calls(marked))
        captured.kernels = with_kept_failures(kernel_code)
        captured.constants = _constants_of(graph, find_value)
        captured.gpu_kernels = tuple(
            compiled[name]
            for name in sorted(set(_KERNEL_SYMBOL.findall(wrapper_code)))
            if name in compiled  # not when only asking what would be generated
        )
        captured.proxy_ops = _proxy_ops_of(graph, serialized_extern_kernel_nodes)
        captured.files = tuple(additional_files)
        return []

    with (
        mock.patch.object(AotCodeCompiler, "compile", staticmethod(keep_sources)),
        mock.patch.object(CudaKernelParamCache, "set", staticmethod(keep_kernel)),
    ):
        yield captured


def _constants_of(graph: Any, find_value: FindValue) -> tuple[GeneratedConstant, ...]:
    found = []
    for name, used in graph.constants.items():
        if name in graph.folded_constants:
            continue
        fqn = graph.allocated_constant_name.get(name, name)
        value = find_value(fqn, graph.get_original_value_of_constant(name))
        found.append(
            GeneratedConstant(
                name=name,
                fqn=fqn,
                value=_with_layout_of(value, used),
                mutated=name in graph.mutated_buffers,
            )
        )
    return tuple(found)


def _with_layout_of(original: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    """The original's values in the layout that the generated code assumes."""
    if original.size() == used.size() and original.stride() == used.stride():
        return original
    if not isinstance(used, FakeTensor):
        return used
    changed = torch.empty_strided(used.size(), used.stride(), dtype=used.dtype)
    return changed.copy_(original)


_KERNEL_SYMBOL = re.compile(r"extern const unsigned char __(\w+)_start\[\]")


def _proxy_ops_of(graph: Any, serialized: str | None) -> tuple[str, ...]:
    from torch._inductor.virtualized import V

    nodes = V.extern_kernel_nodes if serialized else []
    return tuple(sorted({str(node.node.target) for node in nodes}))
