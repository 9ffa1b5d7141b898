"""An index out of range makes the call of a program fail, whoever wrote the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from filelock import FileLock
from support import lower
from torch import nn

from aoti_plugins import MpsPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.usefixtures("metal")

COUNT = 2000  # more than a group of threads


class Indexed(nn.Module):
    """Every op with indices that issue 18 names, each with its own; the last ones in a sum."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(40, 3)

    def forward(
        self, x: torch.Tensor, indices: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        embedded, gathered, indexed, put, scattered, summed = indices
        return (
            self.embedding(embedded),
            x.gather(0, gathered),
            x[indexed] * 2,
            torch.zeros(40).index_put((put,), x),
            torch.zeros(40).scatter(0, scattered, x),
            x[summed].sum(),
        )


def _inputs() -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    x = torch.randn(COUNT)
    return x, tuple(torch.randint(40, (COUNT,)) for _ in range(6))


@pytest.fixture(scope="module")
def indexed(shared_dir: Path) -> Path:
    path = shared_dir / "indexed-host.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            x, indices = _inputs()
            lowered = lower(Indexed(), (x, indices), partitioner=MpsPartitioner(target="host"))
            path.write_bytes(lowered.buffer)
    return path


# 18.18
@pytest.mark.parametrize("bad", [COUNT, -COUNT - 1, 2**40])
def test_an_index_out_of_range_is_an_error(indexed: Path, bad: int) -> None:
    x, indices = _inputs()
    with Program(indexed) as program:
        for place in range(len(indices)):
            wrong = [index.clone() for index in indices]
            wrong[place][COUNT // 2] = bad
            with pytest.raises(ProgramError, match="an index is out of range"):
                program(x, *wrong)
        _check(program, x, indices)


def _check(program: Program, x: torch.Tensor, indices: tuple[torch.Tensor, ...]) -> None:
    """Index -1 means the last one where eager takes it, and is no error."""
    indices[2][5] = indices[3][5] = -1
    for found, expected in zip(program(x, *indices), Indexed()(x, indices), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
