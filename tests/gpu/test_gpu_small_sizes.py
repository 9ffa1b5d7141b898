"""Sizes of 0 and 1 on a GPU."""

from __future__ import annotations

import pytest
import size_cases
from executorch.exir import to_edge_transform_and_lower

from aoti_plugins import CudaPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("name", "least"), [("empty_too", 0), ("not_empty", 1)])
def test_every_size_is_right(name: str, least: int) -> None:
    constructs = size_cases.TABLES[name]
    exported = size_cases.exported(constructs)
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    with Program(bytes(edge.to_executorch().buffer)) as program:
        for s, t in size_cases.sizes(least):
            values = size_cases.inputs(s, t)
            size_cases.check(constructs, program(*values), values)
            size_cases.check(constructs, program(*(value.cuda() for value in values)), values)
        if least:
            with pytest.raises(ProgramError, match="has size 0 in dim 0, expected 1 to 8"):
                program(*size_cases.inputs(0, 5))
