"""Do not write a script that would repeat each code generation.

Inductor writes one for the trace that ``TORCH_TRACE`` asks for, also where nothing asks: with the
source of every kernel of a user's that the process knows, for every graph, and so for every
question about an op.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._dynamo.repro.after_aot.save_graph_repro",
    why="A script that nobody reads would be written for every graph.",
    until="compile_fx writes it only where a trace is kept",
)
def no_repro(original: Any, *args: Any, **kwargs: Any) -> None:
    """Leave the script in the trace empty."""
    del original, args, kwargs
