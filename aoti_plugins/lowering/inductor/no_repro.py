"""Do not write a script that would repeat each code generation.

Inductor writes one for the trace that ``TORCH_TRACE`` asks for, also where nothing asks: with the
source of every kernel of a user's that the process knows, for every graph, and so for every
question about an op.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._dynamo.repro.after_aot.save_graph_repro",
    why="A script that nobody reads would be written for every graph.",
    until="compile_fx writes it only where a trace is kept",
)
def no_repro() -> Iterator[None]:
    """Leave the script in the trace empty."""

    def save_graph_repro(*args: Any, **kwargs: Any) -> None:
        del args, kwargs

    with mock.patch("torch._dynamo.repro.after_aot.save_graph_repro", save_graph_repro):
        yield
