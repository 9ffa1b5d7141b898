"""Lower ``aoti_plugins::stored``: what is in memory stays where it is, the rest is written there.

The result may be the operand itself: graphs that Inductor lowers here write to no operand of this
operator that is read later. Patched: the entry in ``torch._inductor.lowering.lowerings``, which is
none outside of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from aoti_plugins.lowering.decompositions import stored  # noqa: F401  (defines the operator)
from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.lowering.lowerings",
    why="Inductor does not know our operator that stores a value.",
    until="never: the operator is ours",
)
def stored_values() -> Iterator[None]:
    """Inductor knows the operator."""
    from torch._inductor.lowering import lowerings

    with mock.patch.dict(lowerings, {torch.ops.aoti_plugins.stored.default: _lowered}):
        yield


def _lowered(x: Any) -> Any:
    from torch._inductor.ir import ExternKernel, TensorBox, as_storage_and_layout
    from torch._inductor.lowering import as_strided

    found = TensorBox(ExternKernel.realize_input(x))
    _, layout = as_storage_and_layout(found)
    # A buffer that is computed from nothing would still be computed anew, but not a view of it.
    return as_strided(found, layout.size, layout.stride, layout.offset)
