"""Order graph passes by their ``before`` and ``after``."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from graphlib import TopologicalSorter

from aoti_plugins.types import GraphPass


def order_passes(passes: Sequence[GraphPass]) -> list[GraphPass]:
    """Return the passes so that every ``before`` and ``after`` holds.

    Where those leave a choice, the pass that comes first in ``passes`` runs first. Names that are
    not among the passes are ignored.

    Args:
        passes: passes with distinct names.

    Returns:
        The same passes, ordered.

    Raises:
        graphlib.CycleError: the constraints form a cycle; ``args[1]`` holds the names along it,
            the first one repeated at the end, each running before the next.
    """
    index = {graph_pass.name: i for i, graph_pass in enumerate(passes)}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for graph_pass in passes:
        sorter.add(graph_pass.name, *(name for name in graph_pass.after if name in index))
        for name in graph_pass.before:
            if name in index:
                sorter.add(name, graph_pass.name)
    sorter.prepare()
    ready = [index[name] for name in sorter.get_ready()]
    heapq.heapify(ready)
    ordered = []
    while ready:
        graph_pass = passes[heapq.heappop(ready)]
        ordered.append(graph_pass)
        sorter.done(graph_pass.name)
        for name in sorter.get_ready():
            heapq.heappush(ready, index[name])
    return ordered
