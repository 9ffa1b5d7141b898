"""A model is lowered with the hooks of this package, and runs."""

from __future__ import annotations

import pytest
import torch
from acme_python.op import snake
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner, Program, get_manager


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(snake(x, 2.0))


@pytest.fixture(scope="module")
def program():
    exported = torch.export.export(Model(), (torch.randn(4, 32),))
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    return edge.to_executorch()


def test_the_package_is_found():
    (plugin,) = [p for p in get_manager().plugins() if p.name == "acme_python"]
    assert plugin.distribution == "acme-python"


def test_everything_is_in_one_delegate(program):
    (plan,) = program.executorch_program.execution_plan
    assert len(plan.delegates) == 1
    assert not plan.operators


def test_results_are_those_of_the_pass(program):
    x = torch.randn(4, 32)
    with Program(bytes(program.buffer)) as loaded:
        (found,) = loaded(x)
    expected = nn.functional.gelu(snake(x, 2.0), approximate="tanh")
    torch.testing.assert_close(found, expected)
    assert not torch.equal(found, Model()(x))


def test_names_of_blobs(program):
    assert b"acme_python/forward/cpu/so/" in bytes(program.buffer)
