"""Each layer takes up memory that it has released itself.

Inductor gives memory that is released to the next buffer of the same size, also layers later, and
keeps it back where the estimate of the whole program's peak says so: of equal layers each would do
something else. So what a layer releases is there for this layer alone, and is given to it in the
order of buffers.

Patched: how lines of a wrapper that allocate and release are planned, and what is kept of them when
they are made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.fx import Node

from aoti_plugins.lowering.inductor.kernel_sites import single_nodes
from aoti_plugins.lowering.inductor.patching import patch, replaced


@patch(
    "torch._inductor.codegen.wrapper.AllocateLine.__post_init__(self)",
    "torch._inductor.codegen.wrapper.AllocateLine.plan(self, state)",
    "torch._inductor.codegen.wrapper.AllocateLine.should_reuse_buffer(self, free_line, size)",
    "torch._inductor.codegen.wrapper.FreeIfNotReusedLine.__post_init__(self)",
    "torch._inductor.codegen.wrapper.FreeIfNotReusedLine.plan(self, state)",
    "torch._inductor.codegen.wrapper.MemoryPlanningState.pop(self, key)",
    "torch._inductor.codegen.wrapper.buffer_reuse_key(node)",
    why="Code of a few equal layers would not say what that of all is.",
    until="never: Inductor knows nothing of layers",
)
def memory_of_layers(layer_of: Callable[[Node], int | None]) -> Iterator[None]:
    """Plan memory within layers.

    Args:
        layer_of: which of the layers a node of Inductor's graph is of, or ``None``.
    """
    from torch._inductor.codegen import wrapper
    from torch._inductor.virtualized import V

    layers: dict[Any, list[int | None]] = {}
    now: tuple[int, int] | None = None

    def make(original: Any, self: Any) -> None:
        original(self)
        scheduler = V.graph.scheduler
        if scheduler not in layers:
            layers[scheduler] = _layers(scheduler.nodes, layer_of)
        layer = layers[scheduler][self.scheduler_node_index]
        self.layer = None if layer is None else (id(scheduler), layer)  # of a graph within, another

    def plan(original: Any, self: Any, state: Any) -> Any:
        nonlocal now
        now = self.layer
        return original(self, state)

    def key(original: Any, node: Any) -> Any:
        return (*original(node), now)

    def should_reuse(original: Any, self: Any, free_line: Any, size: int) -> bool:
        return bool(self.layer is not None or original(self, free_line, size))

    def pop(original: Any, self: Any, key: Any) -> Any:
        # The last one is taken.
        self.reuse_pool[key].sort(key=lambda line: _number(line.node.get_name()), reverse=True)
        return original(self, key)

    with (
        replaced(wrapper.AllocateLine, "__post_init__", make),
        replaced(wrapper.FreeIfNotReusedLine, "__post_init__", make),
        replaced(wrapper.AllocateLine, "plan", plan),
        replaced(wrapper.FreeIfNotReusedLine, "plan", plan),
        replaced(wrapper.AllocateLine, "should_reuse_buffer", should_reuse),
        replaced(wrapper.MemoryPlanningState, "pop", pop),
        replaced(wrapper, "buffer_reuse_key", key),
    ):
        yield


def _layers(nodes: Sequence[Any], layer_of: Callable[[Node], int | None]) -> list[int | None]:
    """The layer of each node of the scheduler; as the one before it where it does not say."""
    found: list[int | None] = []
    last = None
    for one in nodes:
        made = [inner.node for inner in single_nodes(one.get_nodes()) if inner.node is not None]
        origins = {origin for node in made for origin in node.get_origins()}
        known = [layer for layer in map(layer_of, origins) if layer is not None]
        last = max(known, default=last)
        found.append(last)
    return found


def _number(name: str) -> tuple[int, str]:
    """Order of buffers as they were made: ``buf9`` is before ``buf10``."""
    digits = re.search(r"\d+", name)
    return (int(digits[0]) if digits else -1, name)
