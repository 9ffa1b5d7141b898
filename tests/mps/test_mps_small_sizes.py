"""Sizes of 0 and 1 on Apple GPUs, over the stand-in for Metal."""

from __future__ import annotations

import pytest
import size_cases
from executorch.exir import to_edge_transform_and_lower

from aoti_plugins import MpsPartitioner
from aoti_plugins.runtime import Program

# A kernel takes half a second to build here; these meet all ways of generating and launching one.
CONSTRUCTS = {
    name: size_cases.EMPTY_TOO[name]
    for name in (
        *("broadcast", "softmax", "mm", "linear", "attention", "conv1d of a batch"),
        *("cat", "index", "cumsum", "sort"),
    )
}


@pytest.mark.usefixtures("metal")
def test_every_size_is_right() -> None:
    exported = size_cases.exported(CONSTRUCTS)
    edge = to_edge_transform_and_lower(exported, partitioner=[MpsPartitioner(target="host")])
    with Program(bytes(edge.to_executorch().buffer)) as program:
        for s, t in size_cases.sizes(0):
            values = size_cases.inputs(s, t)
            size_cases.check(CONSTRUCTS, program(*values), values)
