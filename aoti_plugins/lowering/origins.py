"""Which op of the user's program a node comes from that a lowering has made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from aoti_plugins.lowering.carried_ops import node_name
from aoti_plugins.lowering.support import module_path, op_name, source_line


class Origins:
    """The ops of a partition, for messages about what becomes of them.

    Args:
        program: the partition as ExecuTorch gives it; later changes of it are not seen.
    """

    def __init__(self, program: ExportedProgram) -> None:
        nodes = list(nodes_of(program))
        self._ops = {node.name: op_name(node) for node in nodes if node.op == "call_function"}
        self._names = {node.name: node_name(node) for node in nodes}
        self._nodes = {node.name: node for node in nodes}
        self._places = {node.name: place for place, node in enumerate(nodes)}
        self._layers: dict[str, tuple[list[str], int]] = {}

    def described(self, node: Node) -> str:
        """The op that a node of Inductor's graph comes from, its place, and how to exclude it."""
        known = (name for name in _names(node.meta.get("from_node", ())) if name in self._ops)
        origin = next(known, None)
        lines = [("module", module_path(node)), ("source", source_line(node))]
        if origin is None:
            remedy = "give the partitioner exclude=[...] with the op of that line"
        else:
            lines.insert(0, ("op", f"{self._ops[origin]} (node {self._names[origin]!r})"))
            remedy = f"give the partitioner exclude=[{self._ops[origin]!r}]"
        lines.append(("to leave it outside the delegate", remedy))
        return "\n".join(f"    {label}: {text}" for label, text in lines if text)

    def of(self, node: Node, layers_on: int = 0) -> tuple[Node, ...]:
        """The partition's nodes that a node of Inductor's graph comes from, in order; often one.

        Args:
            node: the node.
            layers_on: give those of so many layers further on, where there are.
        """
        known = {name for name in _names(node.meta.get("from_node", ())) if name in self._ops}
        return self.in_order(self._nodes[self._in_layer(name, layers_on)] for name in known)

    def learn_layers(self, chains: Iterable[Sequence[Node]]) -> bool:
        """Learn what the nodes of equal layers come from; whether they come from like ones.

        Args:
            chains: of a graph that passes made of the partition: a node of each layer.
        """
        self._layers.clear()
        for chain in chains:
            of_each = [self.of(node) or self._same(node) for node in chain]
            if len(set(map(len, of_each))) > 1:
                return False
            for nodes in zip(*of_each, strict=True):
                names = [node.name for node in nodes]
                for place, name in enumerate(names):
                    if self._layers.setdefault(name, (names, place))[0] != names:
                        return False
        return True

    def layer(self, node: Node) -> int | None:
        """Which of the layers a node of Inductor's graph is of, by ``learn_layers``; the last one.

        Returns:
            ``None`` if it comes from none of them.
        """
        known = (one.name for one in self.of(node))
        return max((self._layers[name][1] for name in known if name in self._layers), default=None)

    def _same(self, node: Node) -> tuple[Node, ...]:
        return (self._nodes[node.name],) if node.name in self._ops else ()

    def _in_layer(self, name: str, layers_on: int) -> str:
        names, place = self._layers.get(name, ([name], 0))
        return names[place + layers_on] if place + layers_on < len(names) else name

    def in_order(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Nodes of the partition as it has them, whatever they are called."""
        return tuple(sorted(nodes, key=lambda node: self._places[node.name]))


class _History(list[Any]):
    """Where a node came from, which copies share: nothing changes an entry once it is there."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _History:
        return _History(self)


def share_histories(program: ExportedProgram) -> None:
    """Let what is made of a program's nodes share their histories, in place.

    PyTorch copies all of a node's history with every node that it makes of it, so that one
    decomposition takes longer than the one before.
    """
    for node in nodes_of(program):
        if "from_node" in node.meta:
            node.meta["from_node"] = _History(node.meta["from_node"])


def forget_histories(program: ExportedProgram) -> None:
    """Where the nodes of a partition came from; what is made of them is known by them alone.

    PyTorch copies all of a node's history with every node that it makes of it, in each pass.
    """
    for node in nodes_of(program):
        node.meta.pop("from_node", None)


def nodes_of(program: ExportedProgram) -> Iterator[Node]:
    """The nodes of all graphs of a program."""
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            yield from module.graph.nodes


def _names(sources: Iterable[Any]) -> Iterator[str]:
    """Names of the nodes that a node was made of, from the last graph back to the first."""
    for source in sources:
        yield source.name
        yield from _names(source.from_node)
