"""Tell Inductor about the C shims of custom ops, so that it calls them directly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch._higher_order_ops.auto_functionalize import (
    auto_functionalized,
    auto_functionalized_v2,
)
from torch.fx import GraphModule, Node

from aoti_plugins.types import FallbackKernel

OPTION = "aot_inductor.custom_ops_to_c_shims"


def custom_op_options(module: GraphModule, kernels: Iterable[FallbackKernel]) -> dict[str, Any]:
    """Options that declare the shims of the custom ops that a graph uses.

    Only those: Inductor writes every declaration into the wrapper, and what the wrapper names is
    what the blob is linked with. ATen's ops are left out, Inductor knows their shims.

    Args:
        module: the graph, in ATen and custom ops.
        kernels: what plugins declared for the device.
    """
    graphs = [m.graph for m in module.modules() if isinstance(m, GraphModule)]
    used = {_called(node) for graph in graphs for node in graph.nodes}
    declarations: dict[Any, list[str]] = {}
    for kernel in kernels:
        op = _resolve(kernel.op)
        if op is not None and op in used:
            declarations[op] = [shim.declaration.rstrip(";") for shim in kernel.c_shims]
    return {OPTION: declarations} if declarations else {}


def _called(node: Node) -> Any:
    """What a node calls; of an op that writes to its arguments, made functional, the op."""
    is_functional = node.target in (auto_functionalized, auto_functionalized_v2)
    return node.args[0] if is_functional else node.target


def merge(options: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Add found declarations to the options of plugins; a plugin's own declaration stays."""
    merged = dict(options)
    if OPTION in found:
        merged[OPTION] = {**found[OPTION], **options.get(OPTION, {})}
    return merged


def _resolve(name: str) -> torch._ops.OpOverload | None:
    """The op of a schema name; ``None`` for ATen's and for one that nobody has registered."""
    namespace, _, rest = name.partition("::")
    if namespace == "aten":
        return None
    op, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    return getattr(packet, overload or "default", None)
