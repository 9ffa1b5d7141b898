"""Which of several graphs that were generated as one call which C shims.

The graphs share nothing: each has inputs and outputs of its own. So what a call in the generated
wrapper reads and writes says whose it is, followed through buffers and views to an input or an
output. Loops of several graphs may end up in one generated kernel, which therefore says nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# The word's start is looked for last: what begins with plain text is found much faster.
_SHIM_CALL = re.compile(r"aoti_torch_(?<=\baoti_torch_)\w+(?=\()")
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_STATEMENT = re.compile(r"[;{}]\s*\n")
_RUN = re.compile(r"^void AOTInductorModel::run_impl\(", re.MULTILINE)
_VALUE = re.compile(r"\b(arg\d+_1|buf\d+|var_\d+|tmp_tensor_handle_\d+)")
_OUTPUT = re.compile(r"\boutput_handles\[(\d+)\] *=")
_INPUT = re.compile(r"^arg(\d+)_1$")
_SAME_VALUE = re.compile(r"^\s*(auto&?&?|[\w:<>]+) \w+ *=|\boutput_handles\[|aoti_torch_")
_DECLARATION = re.compile(r"\bextern\b")
_KERNEL = re.compile(r"^aoti_torch_(cpu|cuda|mps)_")


@dataclass(frozen=True)
class Share:
    """What one of the graphs has of all inputs and outputs.

    Attributes:
        inputs: how many inputs; those of the graphs follow each other.
        outputs: how many outputs, likewise.
    """

    inputs: int
    outputs: int


def calls_in(source: str) -> frozenset[str]:
    """C shims that appear as calls in a generated source, PyTorch's names."""
    return frozenset(_SHIM_CALL.findall(source))


def shims_of_each(wrapper: str, shares: Sequence[Share]) -> list[frozenset[str] | None]:
    """The C shims that each of the graphs calls, or may call.

    Args:
        wrapper: the generated source of all graphs as one.
        shares: the graphs, in order.

    Returns:
        For each graph the shims that are its own, and those that every program calls; ``None``
        where a call may be of this graph or of another one.
    """
    calls = _Calls(wrapper)
    owners = _owners(shares)
    if set(calls.outputs) != {name for name in owners if name.startswith("out")}:
        return [None] * len(shares)
    own: list[set[str]] = [set() for _ in shares]
    common = set(calls.of_nobody)
    unclear: set[int] = set()
    for values, shims in calls.groups():
        found = {owners[value] for value in values if value in owners}
        kernels = [shim for shim in shims if _KERNEL.match(shim)]
        near = calls.reached_from(values) if kernels and len(found) != 1 else set()
        # Generated kernels before and after it may be all that it has to do with.
        found |= {owners[value] for value in near if value in owners}
        if len(found) == 1:
            own[found.pop()] |= shims
        elif kernels:
            unclear |= found
        else:
            common |= shims
    return [
        None if index in unclear else frozenset(shims | common) for index, shims in enumerate(own)
    ]


def _owners(shares: Sequence[Share]) -> dict[str, int]:
    """Whose each input and output is; outputs as ``out<number>``."""
    of_inputs = (index for index, share in enumerate(shares) for _ in range(share.inputs))
    of_outputs = (index for index, share in enumerate(shares) for _ in range(share.outputs))
    owners = {f"arg{number}_1": index for number, index in enumerate(of_inputs)}
    return owners | {f"out{number}": index for number, index in enumerate(of_outputs)}


class _Calls:
    """The statements of a wrapper that call shims, by the values that they have in common.

    Attributes:
        outputs: values that are outputs, as ``out<number>``.
        of_nobody: shims that are called with no value.
    """

    def __init__(self, wrapper: str) -> None:
        self.outputs: set[str] = set()
        self.of_nobody: set[str] = set()
        self._same, self._near = _Groups(), _Groups()
        self._shims: dict[str, set[str]] = defaultdict(set)
        wrapper = _COMMENT.sub("", wrapper)
        start = _RUN.search(wrapper)
        body = start.start() if start else len(wrapper)
        for statement in _STATEMENT.split(wrapper[:body]):
            self._add(statement, is_run=False)
        for statement in _STATEMENT.split(wrapper[body:]):
            self._add(statement, is_run=True)

    def _add(self, statement: str, is_run: bool) -> None:
        if _DECLARATION.search(statement):
            return  # of a shim that PyTorch's headers do not have
        shims = _SHIM_CALL.findall(statement)
        values = _VALUE.findall(statement)
        outputs = [f"out{number}" for number in _OUTPUT.findall(statement)] if is_run else []
        self.outputs.update(outputs)
        if is_run:
            self._near.join([*values, *outputs])
        if not shims and not _SAME_VALUE.search(statement):
            return
        self._same.join([*values, *outputs])
        if not values:
            self.of_nobody.update(shims)
        elif shims:
            self._shims[values[0]].update(shims)

    def groups(self) -> Iterable[tuple[set[str], set[str]]]:
        """Values that belong together, and the shims that are called with them."""
        shims: dict[str, set[str]] = defaultdict(set)
        for value, called in self._shims.items():
            shims[self._same.root(value)] |= called
        members = self._same.members()
        return [(members[root], called) for root, called in shims.items()]

    def reached_from(self, values: Iterable[str]) -> set[str]:
        """Values that any statement, also a call of a generated kernel, connects with these."""
        members = self._near.members()
        return set().union(*(members[self._near.root(value)] for value in values))


class _Groups:
    """Names in disjoint groups."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def join(self, names: Sequence[str]) -> None:
        """Put names and their groups into one group."""
        roots = [self.root(name) for name in names]
        for root in roots[1:]:
            self._parents[self.root(root)] = self.root(roots[0])

    def root(self, name: str) -> str:
        """The name that stands for a group."""
        self._parents.setdefault(name, name)
        while self._parents[name] != name:
            self._parents[name] = self._parents[self._parents[name]]
            name = self._parents[name]
        return name

    def members(self) -> dict[str, set[str]]:
        """All groups, by the name that stands for each."""
        found: dict[str, set[str]] = defaultdict(set)
        for name in list(self._parents):
            found[self.root(name)].add(name)
        return found
