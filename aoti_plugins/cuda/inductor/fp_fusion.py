"""Let Triton join multiplications and additions, whichever its version.

Kernels of our own and of users say nothing about it. Until Triton 3.9 a product that is added to is
rounded once, as ptxas does by default; 3.9 warns that 3.10 will round twice. Numbers and speed of a
program would then hang on the Triton that it was lowered with. A switch of Triton, no patch; one
that the environment sets (``TRITON_DEFAULT_FP_FUSION``) wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "triton.knobs.language",
    why="Rounding would hang on Triton's version.",
    until="never: a switch",
)
def joined_multiply_add() -> Iterator[None]:
    """Compile kernels with fused multiply-add."""
    import triton

    with triton.knobs.language.scope():
        if "TRITON_DEFAULT_FP_FUSION" not in os.environ:
            triton.knobs.language.default_fp_fusion = True
        yield
