"""Every decomposition gives what PyTorch's operator gives, in all test programs, run eagerly."""

from __future__ import annotations

import warnings

import pytest
import torch
from comparison import differences
from families import FAMILIES
from operator_case import Case
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.decompositions import (
    CPU_DECOMPOSITIONS,
    CUDA_DECOMPOSITIONS,
    MPS_DECOMPOSITIONS,
    Table,
)

TABLES = {"cpu": CPU_DECOMPOSITIONS, "gpu": MPS_DECOMPOSITIONS | CUDA_DECOMPOSITIONS}


def decomposed(case: Case, table: Table) -> GraphModule:
    """The program in terms of what our decompositions leave."""
    trace = make_fx(lambda *x: case.program(*x), decomposition_table=table, tracing_mode="fake")
    with torch.no_grad():
        return trace(*case.inputs)


@pytest.mark.parametrize("device", TABLES)
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_pytorch(family: str, device: str) -> None:
    problems = []
    for case in FAMILIES[family]:
        if isinstance(case.program, torch.nn.Module) or not case.is_run:
            continue  # networks with weights of their own are lowered and run elsewhere
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about its own operators
            program = decomposed(case, TABLES[device])
            expected = pytree.tree_leaves(case.expected())
            found = pytree.tree_leaves(program(*case.inputs))
        problems.append(differences([str(case)] * len(expected), found, expected))
    assert not any(problems), "\n\n".join(filter(None, problems))
