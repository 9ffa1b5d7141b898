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

from aoti_plugins.lowering.decompositions import CPU_DECOMPOSITIONS, CUDA_DECOMPOSITIONS

_TABLE = CPU_DECOMPOSITIONS | CUDA_DECOMPOSITIONS


def decomposed(case: Case) -> GraphModule:
    """The program in terms of what our decompositions leave."""
    trace = make_fx(lambda *x: case.program(*x), decomposition_table=_TABLE, tracing_mode="fake")
    with torch.no_grad():
        return trace(*case.inputs)


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_pytorch(family: str) -> None:
    problems = []
    for case in FAMILIES[family]:
        if isinstance(case.program, torch.nn.Module):
            continue  # a network with weights of its own: lowered and run elsewhere
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about its own operators
            program = decomposed(case)
            expected = pytree.tree_leaves(case.expected())
            found = pytree.tree_leaves(program(*case.inputs))
        problems.append(differences([str(case)] * len(expected), found, expected))
    assert not any(problems), "\n\n".join(filter(None, problems))
