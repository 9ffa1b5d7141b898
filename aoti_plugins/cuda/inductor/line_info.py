"""Keep line tables out of GPU binaries.

Triton writes the path of the generated Python file into every binary: the same model then gives
other bytes on another machine, and the binaries are larger. A switch of Triton, no patch.
"""

from __future__ import annotations

from collections.abc import Iterator

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "triton.knobs.compilation.disable_line_info",
    why="Binaries would hold the paths of generated files.",
    until="never: a switch",
)
def no_line_info() -> Iterator[None]:
    """Compile kernels without line tables."""
    import triton

    with triton.knobs.compilation.scope():
        triton.knobs.compilation.disable_line_info = True
        yield
