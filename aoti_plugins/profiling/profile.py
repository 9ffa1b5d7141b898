"""What a profile holds, and how it is made of the events of calls."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aoti_plugins.payload import KernelRef
from aoti_plugins.runtime import CallEvent

_WHOLE = ("DELEGATE_CALL", "OPERATOR_CALL")


@dataclass(frozen=True)
class Machine:
    """What a machine can do where the program runs.

    Attributes:
        bytes_per_second: read and written by a copy of memory that no cache holds; 0 if not known.
        flops_per_second: of a product of large matrices; 0 if not known.
        products: what these products are, for people.
    """

    bytes_per_second: float
    flops_per_second: float
    products: str = "float32 products"


@dataclass(frozen=True)
class KernelTime:
    """One kernel at one place of a delegate's code.

    Attributes:
        delegate: index of the method's delegate; -1 for what ExecuTorch runs itself.
        launches: how often it runs in a call.
        seconds: of a call, the median over calls.
        origin: what the program says of it; only a name where it says nothing.
    """

    delegate: int
    launches: int
    seconds: float
    origin: KernelRef

    @property
    def nbytes(self) -> int:
        """Read and written in a call, at the sizes of the export."""
        return self.launches * (self.origin.nbytes_read + self.origin.nbytes_written)

    @property
    def flops(self) -> int:
        """Of a call, at the sizes of the export; 0 where they are not known."""
        return self.launches * self.origin.flops

    def bandwidth_share(self, machine: Machine) -> float | None:
        """Of what the machine's memory gives; above 1 for what lies in caches."""
        return _share(self.nbytes, self.seconds, machine.bytes_per_second)

    def arithmetic_share(self, machine: Machine) -> float | None:
        """Of what the machine computes in a product."""
        return _share(self.flops, self.seconds, machine.flops_per_second)


def _share(work: int, seconds: float, limit: float) -> float | None:
    return work / seconds / limit if work and seconds > 0 and limit > 0 else None


@dataclass(frozen=True)
class ModuleTime:
    """A module of the model with what is in it.

    Attributes:
        name: the last part of its path; the root's is empty.
        seconds: of its kernels and of those in its parts, of a call.
        parts: modules in it, the slowest first.
        kernels: names of its own kernels, the slowest first.
    """

    name: str
    seconds: float
    parts: tuple[ModuleTime, ...]
    kernels: tuple[str, ...]


def kernel_times(
    calls: Sequence[Sequence[CallEvent]],
    delegates: Mapping[int, int],
    known: Sequence[Sequence[Sequence[KernelRef]]],
) -> tuple[KernelTime, ...]:
    """Sum the events of calls by kernel.

    Args:
        calls: the events of each call, at least one.
        delegates: the index of the delegate by that of the instruction which calls it.
        known: by delegate and target, what the program says of kernels.

    Returns:
        The slowest first; what ExecuTorch runs itself is among them, calls of delegates are not.
    """
    found: dict[tuple[int, str], list[list[float]]] = {}
    for number, call in enumerate(calls):
        outside = set(_outside(call))
        for event in call:
            if not event.is_kernel and event not in outside:
                continue
            delegate = delegates.get(event.instruction, -1) if event.is_kernel else -1
            times = found.setdefault((delegate, event.name), [[] for _ in calls])
            times[number].append(event.seconds)
    by_delegate = _origins([key for key in found if key[0] >= 0], known)
    times_of = (
        KernelTime(
            delegate=delegate,
            launches=max(map(len, times)),
            seconds=statistics.median(map(sum, times)),
            origin=by_delegate.get((delegate, name), KernelRef(name)),
        )
        for (delegate, name), times in found.items()
    )
    return tuple(sorted(times_of, key=lambda one: -one.seconds))


def _outside(call: Sequence[CallEvent]) -> Iterator[CallEvent]:
    """What ExecuTorch runs itself: its kernels, and instructions of its own without a kernel."""
    own = [event for event in call if not event.is_kernel and event.instruction >= 0]
    seen = {event.instruction for event in own if event.name not in _WHOLE}
    for event in own:
        is_whole = event.name in _WHOLE
        if not is_whole or (event.name != _WHOLE[0] and event.instruction not in seen):
            yield event


def _origins(
    ran: Sequence[tuple[int, str]], known: Sequence[Sequence[Sequence[KernelRef]]]
) -> dict[tuple[int, str], KernelRef]:
    """What the program says of the kernels that ran: of the target that has all their names."""
    origins = {}
    for delegate, targets in enumerate(known):
        names = {name for one, name in ran if one == delegate}
        for kernels in targets:
            by_name = {kernel.name: kernel for kernel in kernels}
            if names <= by_name.keys():
                origins.update({(delegate, name): by_name[name] for name in names})
                break
    return origins


def module_tree(kernels: Sequence[KernelTime]) -> ModuleTime:
    """Sum kernels by module; a kernel of several modules counts for each with an equal share."""
    shares: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    for kernel in kernels:
        paths = [module_parts(text) for text in kernel.origin.modules] or [()]
        for path in paths:
            part = kernel.seconds / len(paths)
            shares.setdefault(path, []).append((part, kernel.origin.name))
    return _tree("", (), shares)


def module_parts(text: str) -> tuple[str, ...]:
    """The parts of a module's path as the payload has it, ``layers.0.fc (Linear)``."""
    path, has_class, _ = text.partition(" (")
    return tuple(path.split(".")) if has_class and path else ()


def _tree(
    name: str, path: tuple[str, ...], shares: Mapping[tuple[str, ...], list[tuple[float, str]]]
) -> ModuleTime:
    below = {one[len(path)] for one in shares if len(one) > len(path) and one[: len(path)] == path}
    parts = [_tree(part, (*path, part), shares) for part in sorted(below)]
    own = sorted(shares.get(path, ()), reverse=True)
    return ModuleTime(
        name=name,
        seconds=sum(seconds for seconds, _ in own) + sum(part.seconds for part in parts),
        parts=tuple(sorted(parts, key=lambda part: -part.seconds)),
        kernels=tuple(kernel for _, kernel in own),
    )
