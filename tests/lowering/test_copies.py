"""What users hold can be copied and sent to other processes, or says why not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import CpuPartitioner, CudaPartitioner, MpsPartitioner, Program, ReadableNames
from aoti_plugins.cuda.tuning.records import Entry, Key

DUPLICATE = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}


@pytest.mark.parametrize("duplicate", DUPLICATE.values(), ids=DUPLICATE)
@pytest.mark.parametrize(
    "partitioner",
    [
        CpuPartitioner(targets=["x86_64-v3", "x86_64-v4"], external_data=True),
        CudaPartitioner(target="h100", tuning=["a.json", "b.json"], cuda_graphs=True),
        MpsPartitioner(minimum_macos="15.0", gpu_cores=10),
    ],
    ids=["cpu", "cuda", "mps"],
)
def test_a_partitioner_can_be_copied_and_pickled(
    partitioner: Any, duplicate: Callable[[Any], Any]
) -> None:
    other = duplicate(partitioner)
    assert type(other) is type(partitioner)
    assert other is not partitioner
    assert other.delegation_spec == partitioner.delegation_spec
    assert other.delegation_spec.compile_specs is not partitioner.delegation_spec.compile_specs


def test_a_copy_of_a_used_partitioner_lowers() -> None:
    partitioner = CpuPartitioner()
    model, x = nn.Softsign(), torch.arange(-3.0, 4.0)
    first = lower(model, (x,), partitioner=partitioner)
    second = lower(model, (x,), partitioner=copy.deepcopy(partitioner))
    assert first.buffer == second.buffer
    with Program(pickle.loads(pickle.dumps(second.buffer))) as program:
        torch.testing.assert_close(program(x), (model(x),))


@pytest.mark.parametrize("duplicate", DUPLICATE.values(), ids=DUPLICATE)
def test_a_tuning_entry_can_be_copied_and_pickled(duplicate: Callable[[Any], Any]) -> None:
    entry = Entry(Key("kernel", (("source", "5b1f"),)), {"num_warps": 4}, 2.5, {"gpu": "H100"})
    assert duplicate(entry) == entry


def test_a_copied_policy_of_names_is_for_another_program() -> None:
    names = ReadableNames(external=False)
    assert names.aoti_blob_name("so", "cpu", "forward", "1f" * 32) == "forward_so_blob"
    other = copy.deepcopy(names)
    assert other.aoti_blob_name("so", "cpu", "forward", "2e" * 32) == "forward_so_blob"


@pytest.mark.parametrize("duplicate", DUPLICATE.values(), ids=DUPLICATE)
def test_a_program_is_not_copied(
    lowered_programs: Callable[[str], Path], duplicate: Callable[[Any], Any]
) -> None:
    """Two owners of one native program would free it twice."""
    with Program(lowered_programs("mlp")) as program:
        for owner in (program, program.method()):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                duplicate(owner)
