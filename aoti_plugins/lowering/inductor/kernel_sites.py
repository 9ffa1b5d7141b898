"""Know of each kernel that a generated wrapper calls what it is from, and mark the call.

Inductor asks at each call of a kernel whether to keep its provenance, and writes a comment with a
number before the call if so. Patched: the function that it asks, which here keeps the nodes and
the bytes, and gives the number. Behind such a comment the statement that calls the kernel is found
in the text and put between two marks (``aoti_plugins/blob_kernels.h``), the second with those
tensors that are what an op of the model gives; with nobody watching they are a load each.
Inductor's own switch (``trace.provenance_tracking_level``) makes it write files, and its
``cpp.enable_kernel_profile`` needs libtorch's profiler. Tested with torch 2.11, 2.12, 2.13 and
2.15.

On a GPU a mark is around the launch; the runtime asks the device when the kernel ran.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch.fx import Graph, Node

from aoti_plugins.lowering.inductor.patching import patch


@dataclass(frozen=True)
class KernelOutput:
    """A tensor that a kernel writes and that is what an op of the model gives.

    Attributes:
        name: the kernel's, a point, the buffer; empty before the text is known.
        buffer: its variable in the wrapper.
        node: the node of Inductor's graph whose result it holds, the last that was made of the op.
        sizes: of that result, which may be a view of the buffer; ``None`` if a call decides them.
    """

    name: str
    buffer: str
    node: Node
    sizes: tuple[int, ...] | None


@dataclass(frozen=True)
class KernelSite:
    """A place of a wrapper that calls a kernel.

    Attributes:
        name: the function, a colon, the number of the place; empty before the text is known.
        nodes: nodes of Inductor's graph whose work it does.
        nbytes_read: of the tensors that it reads, at the sizes of the export; 0 if not known.
        nbytes_written: of those that it writes; likewise.
        flops: multiplications and additions of products and convolutions; 0 for others.
        outputs: of the tensors that it writes, those that are what an op gives.
        layers_on: how many layers behind those of the nodes is the one whose work it does
            (``loops.py``).
    """

    name: str
    nodes: tuple[Node, ...]
    nbytes_read: int
    nbytes_written: int
    flops: int
    outputs: tuple[KernelOutput, ...] = ()
    layers_on: int = 0


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
    last = _LastNodes()

    def keep(node_schedule: Any, kernel_name: str, is_extern: bool = False) -> int | None:
        if not kernel_name:
            return None
        make = _extern_site if is_extern else _fused_site
        sites.append(make(node_schedule, last))
        return len(sites) - 1

    name = "set_kernel_post_grad_provenance_tracing"
    with (
        mock.patch.object(torch._inductor.codegen.cpp, name, keep),
        mock.patch.object(torch._inductor.codegen.triton, name, keep),
        mock.patch.object(torch._inductor.debug, name, keep),
    ):
        yield sites


class _LastNodes:
    """Knows of each op of the model the last node that Inductor's graph has of it."""

    def __init__(self) -> None:
        self._graph: Graph | None = None
        self._last: dict[str, Node] = {}
        self._position: dict[Node, int] = {}

    def output(
        self, buffer: str, node: Node | None, origins: Iterable[Node]
    ) -> KernelOutput | None:
        """What a buffer is to the model.

        Args:
            buffer: its name.
            node: whose result it holds, as Inductor says.
            origins: the nodes whose work it is. With one behind ``node`` it is a copy that this one
                asked for, maybe of a view, which Inductor says to be ``node``'s, too.

        Returns:
            ``None`` if it is only a step within an op, or such a copy; or if the op's result is a
            view of it whose sizes are known only in a call.
        """
        own = node
        if node is None or node.op != "call_function":
            return None
        self._know(node.graph)
        position = self._position.get(node)
        if position is None or any(self._position.get(one, -1) > position for one in origins):
            return None
        while node is not None:
            if self._is_last(node) and isinstance(node.meta.get("val"), torch.Tensor):
                sizes = _sizes(node.meta["val"])
                known = sizes is not None or node is own
                return KernelOutput("", buffer, node, sizes) if known else None
            node = _only_view(node)
        return None

    def _is_last(self, node: Node) -> bool:
        return self._last.get(_source(node)) is node

    def _know(self, graph: Graph) -> None:
        if graph is not self._graph:
            self._graph = graph
            self._last = {source: one for one in graph.nodes if (source := _source(one))}
            self._position = {one: index for index, one in enumerate(graph.nodes)}


def _source(node: Node) -> str:
    """The name of the op that a node was made of; empty if it does not say."""
    name, sources = "", node.meta.get("from_node", ())
    while sources:
        name, sources = sources[-1].name, sources[-1].from_node
    return name


_VIEWS = tuple(
    getattr(torch.ops.aten, name)
    for name in ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze")
)


def _only_view(node: Node) -> Node | None:
    """The same elements in the same order with other sizes, where nothing else uses them."""
    users = list(node.users)
    is_view = len(users) == 1 and getattr(users[0].target, "overloadpacket", None) in _VIEWS
    return users[0] if is_view else None


def _sizes(value: torch.Tensor) -> tuple[int, ...] | None:
    fixed = tuple(size for size in value.shape if isinstance(size, int))
    return fixed if len(fixed) == value.ndim else None


def single_nodes(schedule: Iterable[Any]) -> list[Any]:
    """What a kernel is made of, with the nodes of those that were put together in its place."""
    found: list[Any] = []
    for one in schedule:
        is_several = hasattr(one, "is_foreach") and one.is_foreach()
        found += one.get_nodes() if is_several else [one]
    return found


def _fused_site(schedule: Sequence[Any], last: _LastNodes) -> KernelSite:
    from torch._inductor.virtualized import V

    nodes = [one for one in single_nodes(schedule) if getattr(one, "node", None) is not None]
    written = {dep.name for one in nodes for dep in one.read_writes.writes}
    read = {dep.name for one in nodes for dep in one.read_writes.reads} - written
    origins = [origin for one in nodes for origin in one.node.get_origins()]
    kept = written - set(V.graph.removed_buffers)
    made = [one.node for one in nodes if one.node.get_name() in kept]
    outputs = [last.output(b.get_name(), b.get_origin_node(), b.get_origins()) for b in made]
    return KernelSite("", _unique(origins), _nbytes(read), _nbytes(kept), 0, _known_ones(outputs))


def _extern_site(kernel: Any, last: _LastNodes) -> KernelSite:
    read_writes = kernel.get_read_writes()
    results = _results(kernel)
    written = {dep.name for dep in read_writes.writes} | set(results)
    read = {dep.name for dep in read_writes.reads} - written
    origin = kernel.get_origin_node()
    origins = _unique([origin] if origin is not None else kernel.get_origins())
    flops = sum(map(_flops, origins))
    only = results[0] if len(results) == 1 else ""
    output = last.output(only, origin, kernel.get_origins()) if only else None
    return KernelSite("", origins, _nbytes(read), _nbytes(written), flops, _known_ones([output]))


def _results(kernel: Any) -> list[str]:
    """The buffers that a call fills or makes; where it makes them they have nodes of their own.

    None of a kernel that writes to its arguments: it has no name.
    """
    made = [one for one in getattr(kernel, "outputs", ()) if one is not None]
    return [one.get_name() for one in made or [kernel] if one.name]


def _known_ones(outputs: Iterable[KernelOutput | None]) -> tuple[KernelOutput, ...]:
    return tuple(one for one in outputs if one is not None)


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
_NAME = re.compile(r"\bbuf\w+")
_PLAIN_CALL = re.compile(r"aoti_torch_\w+")
# How wrappers launch kernels of Triton, and those of Metal, which have a library each.
_TRITON_CALL = "call_"
_METAL_CALL = "aoti_torch_mps_run_command_block"
_METAL_LIBRARY = re.compile(r"mps_lib_\d+")


def with_marks(
    wrapper: str, sites: Sequence[KernelSite], left_out: Set[str] = frozenset()
) -> tuple[str, tuple[KernelSite, ...]]:
    """Put marks around the calls of kernels.

    Args:
        wrapper: as Inductor wrote it.
        sites: by the numbers in its comments; empty to mark nothing.
        left_out: buffers that kernels do not write after all, for nobody reads them: Inductor knows
            when all is written. A kernel may still have the memory of one as an argument.

    Returns:
        The wrapper, and the sites that it marks, with their names.
    """
    lines: list[str] = []
    marked: list[KernelSite] = []
    waiting: tuple[str, KernelSite] | None = None
    since = 0  # the line behind the comment of the kernel that is waited for
    for line in wrapper.split("\n"):
        comment = _COMMENT.match(line)
        if comment is not None and int(comment["number"]) < len(sites):
            waiting, since = (comment["kernel"], sites[int(comment["number"])]), len(lines)
            continue
        lines.append(line)
        call = _STATEMENT.match(line) if waiting is not None else None
        if waiting is not None and call is not None and _is_call_of(call, waiting[0]):
            name = f"{_shown_name(call['function'], waiting[0])}:{len(marked)}"
            variables = set(_NAME.findall("\n".join(lines[since:])))
            site = _named(waiting[1], name, variables, left_out)
            marked.append(site)
            outputs = " ".join(_output_mark(one, variables) for one in site.outputs)
            lines[-1:] = [
                f'{call["indent"]}AOTIP_KERNEL_BEGIN("{name}");',
                line,
                f"{call['indent']}AOTIP_KERNEL_END({outputs});",
            ]
            waiting = None
    return "\n".join(lines), tuple(marked)


def _named(site: KernelSite, name: str, variables: Set[str], left_out: Set[str]) -> KernelSite:
    """A site with its name, and with those outputs that are written and have a variable."""
    outputs = tuple(
        replace(one, name=f"{name}.{one.buffer}")
        for one in site.outputs
        if one.buffer not in left_out and variables & {one.buffer, f"{one.buffer}_handle"}
    )
    return replace(site, name=name, outputs=outputs)


def _output_mark(output: KernelOutput, variables: Set[str]) -> str:
    """What shows a tensor that a call has written; a call that makes it has a plain handle."""
    handle = f"{output.buffer}_handle"
    variable = handle if handle in variables else output.buffer
    sizes = output.sizes
    shape = "-1, {}" if sizes is None else f"{len(sizes)}, {{{', '.join(map(str, sizes))}}}"
    return f'AOTIP_KERNEL_OUTPUT("{output.name}", {variable}, {shape})'


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
