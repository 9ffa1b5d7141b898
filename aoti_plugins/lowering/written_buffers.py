"""Buffers that methods of a program write to, and which of them the methods share.

Methods share by name: a method that only reads what another one writes must find it at run time as
well, so what is constant in one method is not decided by that method alone. Buffers that have one
name and cannot be one buffer stay apart.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from aoti_plugins.errors import LoweringError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Known:
    """What is known of the methods that are lowered together.

    Attributes:
        written: FQNs that one of the methods which share writes to.
        shared: those of them that a method shares with the others, by method.
    """

    written: frozenset[str] = frozenset()
    shared: Mapping[str, frozenset[str]] = field(default_factory=dict)


_NOTHING = _Known()
_known: contextvars.ContextVar[_Known] = contextvars.ContextVar("written_buffers", default=_NOTHING)


@contextlib.contextmanager
def known(programs: Mapping[str, Sequence[ExportedProgram]]) -> Iterator[None]:
    """Within the block, what some methods write to is known to the lowering of each.

    Args:
        programs: partitions of the methods that share their state, by method.

    Raises:
        LoweringError: a buffer has other first values in one method than in another.
    """
    written = frozenset(
        fqn
        for partitions in programs.values()
        for partition in partitions
        for fqn in partition.graph_signature.buffers_to_mutate.values()
    )
    token = _known.set(_Known(written, _shared(programs, written)))
    try:
        yield
    finally:
        _known.reset(token)


def read_by(program: ExportedProgram, method: str) -> frozenset[str]:
    """FQNs of the buffers that another method may write to and this partition only reads."""
    signature = program.graph_signature
    read = set(signature.inputs_to_buffers.values()) - set(signature.buffers_to_mutate.values())
    return _known.get().shared.get(method, frozenset()) & read


def is_written(fqn: str) -> bool:
    """Whether one of the methods that are lowered together writes to a buffer of this name."""
    return fqn in _known.get().written


def is_shared(fqn: str, method: str) -> bool:
    """Whether a buffer that a method uses, and some method writes to, is the others', too."""
    return fqn in _known.get().shared.get(method, frozenset())


def _shared(
    programs: Mapping[str, Sequence[ExportedProgram]], written: frozenset[str]
) -> dict[str, frozenset[str]]:
    """The written buffers that each method has in the layout in which the first method has them."""
    values = {method: _values(partitions, written) for method, partitions in programs.items()}
    firsts: dict[str, tuple[str, torch.Tensor]] = {}
    for method, buffers in values.items():
        for fqn, value in buffers.items():
            firsts.setdefault(fqn, (method, value))
    shared = {}
    apart: list[str] = []
    changed: list[str] = []
    for method, buffers in values.items():
        shared[method] = frozenset(f for f, v in buffers.items() if _fits(v, firsts[f][1]))
        for fqn in sorted(buffers):
            first_method, first = firsts[fqn]
            if fqn not in shared[method]:
                apart.append(
                    f"- {fqn!r} is {_layout(buffers[fqn])} in {method!r} and {_layout(first)} in "
                    f"{first_method!r}"
                )
            elif not _equal(buffers[fqn], first):
                changed.append(f"- {fqn!r} in {method!r} and in {first_method!r}")
    _refuse(changed)
    _warn(apart)
    return shared


def _refuse(changed: Iterable[str]) -> None:
    lines = "\n".join(changed)
    if lines:
        raise LoweringError(
            "methods of one program share the buffers that have one name, and these have other "
            f"first values in one method than in another:\n{lines}\nExport all methods before the "
            "module runs, give the buffers names of their own, or lower with share_state=False."
        )


def _warn(apart: Iterable[str]) -> None:
    lines = "\n".join(apart)
    if lines:
        logger.warning(
            "methods of one program share the buffers that have one name, but for these, which a "
            "method with another layout has for itself:\n%s",
            lines,
        )


def _values(
    partitions: Iterable[ExportedProgram], written: frozenset[str]
) -> dict[str, torch.Tensor]:
    """The first values of the written buffers that a method uses."""
    values = {}
    for partition in partitions:
        for fqn in partition.graph_signature.inputs_to_buffers.values():
            if fqn in written:
                constants = partition.constants
                values[fqn] = partition.state_dict.get(fqn, constants.get(fqn))
    return values


def _fits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.dtype, one.size(), one.stride()) == (other.dtype, other.size(), other.stride())


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one layout have the same bytes; a NaN is equal to itself."""
    return one is other or torch.equal(_bytes(one), _bytes(other))


def _bytes(value: torch.Tensor) -> torch.Tensor:
    return value.detach().flatten().view(torch.uint8)


def _layout(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
