"""Random ops of programs for Apple GPUs: other numbers with each call, the same after a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from support import lower
from torch import nn
from torch.nn import functional

from aoti_plugins import MpsPartitioner
from aoti_plugins.runtime import Program, get_options, set_options

MPS = "AotiMpsBackend"
COUNT = 3000
INPUTS = (torch.ones(COUNT),)

pytestmark = pytest.mark.usefixtures("metal")


class Everything(nn.Module):
    """What Inductor generates from seeds, and ops that are made of those; one of each kind."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "rand": torch.rand(COUNT),
            "rand again": torch.rand(COUNT),
            "randn": torch.randn(COUNT),
            "randint": torch.randint(-2, 4, (COUNT,)),
            "dropout": functional.dropout(x, 0.5, training=True),
        }


@pytest.fixture(scope="module")
def program_path(shared_dir: Path) -> Path:
    path = shared_dir / "mps-random.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            lowered = lower(Everything(), INPUTS, partitioner=MpsPartitioner(target="host"))
            targets = {str(node.target) for node in lowered.exported_program().graph.nodes}
            assert not [target for target in targets if target.startswith("aten")]
            path.write_bytes(lowered.buffer)
    return path


@pytest.fixture(autouse=True)
def _seed_is_put_back(program_path: Path) -> Iterator[None]:
    with Program(program_path):
        before = get_options(MPS)
    yield
    set_options(MPS, **before)


def called(program: Program) -> dict[str, torch.Tensor]:
    """The outputs by name."""
    names = ("rand", "rand again", "randn", "randint", "dropout")
    return {name: value.clone() for name, value in zip(names, program(*INPUTS), strict=True)}


def test_calls_differ_and_a_seed_repeats_them(program_path: Path) -> None:
    with Program(program_path) as program, Program(program_path) as other:
        set_options(MPS, seed=1)
        assert get_options(MPS)["seed"] == 1
        first, second = called(program), called(other)
        set_options(MPS, seed=1)
        again = called(other), called(program)
        set_options(MPS, seed=2)
        differently = called(program)
    assert not torch.equal(first["rand"], first["rand again"])
    for name, value in first.items():
        assert torch.equal(value, again[0][name]), name
        assert torch.equal(second[name], again[1][name]), name
        assert not torch.equal(value, second[name]), name
        assert not torch.equal(value, differently[name]), name


def test_distributions(program_path: Path) -> None:
    """With a seed of its own, so that the draw is always the same."""
    with Program(program_path) as program:
        set_options(MPS, seed=7)
        found = called(program)
    rand, randn = found["rand"], found["randn"]
    assert 0 <= rand.min() < 0.01
    assert 0.99 < rand.max() < 1
    assert abs(rand.mean() - 0.5) < 0.03
    assert abs(randn.mean()) < 0.1
    assert abs(randn.std() - 1) < 0.1
    assert found["randint"].unique().tolist() == [-2, -1, 0, 1, 2, 3]
    assert found["dropout"].unique().tolist() == [0, 2]
    assert abs(found["dropout"].mean() - 1) < 0.1


def test_each_process_starts_with_a_seed_of_its_own(
    program_path: Path, run_python: Callable[..., str]
) -> None:
    script = """
        import sys
        from aoti_plugins.runtime import Program, get_options
        with Program(sys.argv[1]):
            print(get_options("AotiMpsBackend")["seed"])
    """
    # One seed of 2**32: three times the same is no accident.
    assert len({run_python(script, program_path) for _ in range(3)}) > 1
