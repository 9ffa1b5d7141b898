"""Buffers that any method of a program writes to.

A method that only reads such a buffer must find it at run time as well: methods can be loaded with
one state. So what is constant in one method is not decided by that method alone.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_written: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "written_buffers", default=frozenset()
)


@contextlib.contextmanager
def known(programs: Iterable[ExportedProgram]) -> Iterator[None]:
    """Within the block, what some of these programs write to is known to the lowering of each."""
    names = {fqn for p in programs for fqn in p.graph_signature.buffers_to_mutate.values()}
    token = _written.set(frozenset(names))
    try:
        yield
    finally:
        _written.reset(token)


def read_by(program: ExportedProgram) -> frozenset[str]:
    """FQNs of the buffers of a program that another program writes to and this one only reads."""
    signature = program.graph_signature
    read = set(signature.inputs_to_buffers.values()) - set(signature.buffers_to_mutate.values())
    return _written.get() & read
