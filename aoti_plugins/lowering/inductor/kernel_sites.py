"""Know of each kernel that a generated wrapper calls what it is from, and mark the call.

Inductor asks at each call of a kernel whether to keep its provenance, and writes a comment with a
number before the call if so. Patched: the function that it asks, which here keeps the nodes and
the bytes, and gives the number. Behind such a comment the statement that calls the kernel is found
in the text and put between two marks (``aoti_plugins/blob_kernels.h``); with nobody watching they
are a load each. Inductor's own switch (``trace.provenance_tracking_level``) makes it write files,
and its ``cpp.enable_kernel_profile`` needs libtorch's profiler. Tested with
torch 2.11, 2.12, 2.13 and 2.15.

On a GPU a mark is around the launch; the runtime asks the device when the kernel ran.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch.fx import Node

from aoti_plugins.lowering.inductor.patching import patch


@dataclass(frozen=True)
class KernelSite:
    """A place of a wrapper that calls a kernel.

    Attributes:
        name: the function, a colon, the number of the place; empty before the text is known.
        nodes: nodes of Inductor's graph whose work it does.
        nbytes_read: of the tensors that it reads, at the sizes of the export; 0 if not known.
        nbytes_written: of those that it writes; likewise.
        flops: multiplications and additions of products and convolutions; 0 for others.
    """

    name: str
    nodes: tuple[Node, ...]
    nbytes_read: int
    nbytes_written: int
    flops: int


@patch(
    "torch._inductor.codegen.cpp.set_kernel_post_grad_provenance_tracing"
    "(node_schedule, kernel_name, is_extern)",
    "torch._inductor.codegen.triton.set_kernel_post_grad_provenance_tracing"
    "(node_schedule, kernel_name, is_extern)",
    "torch._inductor.debug.set_kernel_post_grad_provenance_tracing"
    "(node_schedule, kernel_name, is_extern)",
    why="A profile could not say which lines and modules a kernel comes from.",
    until="Inductor gives the nodes of each kernel with its sources",
)
def kernel_sites() -> Iterator[list[KernelSite]]:
    """Yield a list that gets a site for each number that Inductor writes into its comments."""
    import torch._inductor.codegen.cpp
    import torch._inductor.codegen.triton
    import torch._inductor.debug

    sites: list[KernelSite] = []

    def keep(node_schedule: Any, kernel_name: str, is_extern: bool = False) -> int | None:
        if not kernel_name:
            return None
        sites.append(_extern_site(node_schedule) if is_extern else _fused_site(node_schedule))
        return len(sites) - 1

    name = "set_kernel_post_grad_provenance_tracing"
    with (
        mock.patch.object(torch._inductor.codegen.cpp, name, keep),
        mock.patch.object(torch._inductor.codegen.triton, name, keep),
        mock.patch.object(torch._inductor.debug, name, keep),
    ):
        yield sites


def _fused_site(schedule: Sequence[Any]) -> KernelSite:
    from torch._inductor.virtualized import V

    nodes = [one for one in schedule if getattr(one, "node", None) is not None]
    written = {dep.name for one in nodes for dep in one.read_writes.writes}
    read = {dep.name for one in nodes for dep in one.read_writes.reads} - written
    origins = [origin for one in nodes for origin in one.node.get_origins()]
    kept = written - set(V.graph.removed_buffers)
    return KernelSite("", _unique(origins), _nbytes(read), _nbytes(kept), 0)


def _extern_site(kernel: Any) -> KernelSite:
    read_writes = kernel.get_read_writes()
    written = {dep.name for dep in read_writes.writes}
    read = {dep.name for dep in read_writes.reads} - written
    origin = kernel.get_origin_node()
    origins = _unique([origin] if origin is not None else kernel.get_origins())
    flops = sum(map(_flops, origins))
    return KernelSite("", origins, _nbytes(read), _nbytes(written), flops)


def _unique(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Each node once, in an order that does not depend on how sets are ordered."""
    return tuple(sorted(set(nodes), key=lambda node: node.name))


def _nbytes(buffers: Iterable[str]) -> int:
    """Bytes of buffers of Inductor's graph; 0 for those whose size is known only in a call.

    A kernel with several results writes to one buffer without dtype, that counts as nothing.
    """
    from torch._inductor.virtualized import V

    total = 0
    for name in buffers:
        try:
            total += _known(V.graph.get_numel(name)) * V.graph.get_dtype(name).itemsize
        except (KeyError, NotImplementedError):
            continue
    return total


def _known(size: Any) -> int:
    """A size, at the sizes of the export; 0 where it is known only in a call."""
    from torch._inductor.virtualized import V

    if isinstance(size, int):
        return size
    expression = getattr(getattr(size, "node", None), "expr", size)
    env = V.graph.sizevars.shape_env
    values = getattr(env, "backed_var_to_val", None)  # older PyTorch has the other
    values = env.var_to_val if values is None else values
    found = expression.xreplace(values)
    return int(found) if found.is_number else 0


def _flops(node: Node) -> int:
    """Multiplications and additions of a product or a convolution; 0 for other ops.

    From the result's elements and the terms of each: a product sums over the last dimension of its
    first operand, a convolution over the elements of a filter.
    """
    op = getattr(node.target, "overloadpacket", None)
    aten = torch.ops.aten
    operands = [arg.meta.get("val") for arg in node.args if isinstance(arg, Node)]
    result = node.meta.get("val")
    if not isinstance(result, torch.Tensor):
        return 0
    numel = math.prod(map(_known, result.shape))
    if op in (aten.mm, aten.bmm) and len(operands) == 2:
        return 2 * numel * _known(operands[0].shape[-1])
    if op in (aten.addmm, aten.baddbmm) and len(operands) == 3:
        return 2 * numel * _known(operands[1].shape[-1])
    if op is aten.convolution and len(operands) >= 2:
        return _convolution_flops(node, operands, numel)
    return 0


def _convolution_flops(node: Node, operands: Sequence[torch.Tensor], numel: int) -> int:
    weight = operands[1]
    transposed = bool(node.args[6]) if len(node.args) > 6 else False
    terms = math.prod(map(_known, weight.shape[1:]))
    return 2 * terms * (math.prod(map(_known, operands[0].shape)) if transposed else numel)


_COMMENT = re.compile(r"^\s*// \[Provenance debug handles\] (?P<kernel>\S+):(?P<number>\d+)\s*$")
_STATEMENT = re.compile(
    r"^(?P<indent>\s*)(?P<call>(?:AOTI_TORCH_ERROR_CODE_CHECK\()?(?P<function>\w+)\(.*\);)\s*$"
)
# Calls that prepare memory for a kernel, or drop it.
_MEMORY = re.compile(
    r"aoti_torch_(empty|create|delete|_?reinterpret|as_strided|get|new|_alloc|clone|assign)\w*"
)
_PLAIN_CALL = re.compile(r"aoti_torch_\w+")
# How wrappers launch kernels of Triton, and those of Metal, which have a library each.
_TRITON_CALL = "call_"
_METAL_CALL = "aoti_torch_mps_run_command_block"
_METAL_LIBRARY = re.compile(r"mps_lib_\d+")


def with_marks(wrapper: str, sites: Sequence[KernelSite]) -> tuple[str, tuple[KernelSite, ...]]:
    """Put marks around the calls of kernels.

    Args:
        wrapper: as Inductor wrote it.
        sites: by the numbers in its comments; empty to mark nothing.

    Returns:
        The wrapper, and the sites that it marks, with their names.
    """
    lines: list[str] = []
    marked: list[KernelSite] = []
    waiting: tuple[str, KernelSite] | None = None
    for line in wrapper.split("\n"):
        comment = _COMMENT.match(line)
        if comment is not None and int(comment["number"]) < len(sites):
            waiting = comment["kernel"], sites[int(comment["number"])]
            continue
        call = _STATEMENT.match(line) if waiting is not None else None
        if waiting is not None and call is not None and _is_call_of(call, waiting[0]):
            name = f"{_shown_name(call['function'], waiting[0])}:{len(marked)}"
            marked.append(replace(waiting[1], name=name))
            line = (
                f'{call["indent"]}AOTIP_KERNEL_BEGIN("{name}");\n{line}\n'
                f"{call['indent']}AOTIP_KERNEL_END();"
            )
            waiting = None
        lines.append(line)
    return "\n".join(lines), tuple(marked)


def _is_call_of(call: re.Match[str], kernel: str) -> bool:
    """Whether a statement calls the kernel that a comment before it names."""
    function = call["function"]
    if _METAL_LIBRARY.fullmatch(kernel):
        return function == _METAL_CALL and f"get_{kernel}_handle()" in call["call"]
    if function in (kernel, _TRITON_CALL + kernel):
        return True
    is_shim = _PLAIN_CALL.fullmatch(function) is not None
    return is_shim and _MEMORY.fullmatch(function) is None


def _shown_name(function: str, kernel: str) -> str:
    """The kernel's, where the function that is called only launches it."""
    return kernel if function in (_METAL_CALL, _TRITON_CALL + kernel) else function
