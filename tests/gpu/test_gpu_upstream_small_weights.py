"""Layers with small weights that ExecuTorch's own CUDA backend lowered here, on our runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower
from torch.export import Dim

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.gpu

FORMS = (
    "int4",
    "int4_groups_of_128",
    "int5",
    "int6",
    "int8",
    "int8_rows",
    "tiles",
    "tiles_groups_of_128",
)
"""Those of upstream_small_weights.py, which imports what registers ops of upstream's."""


ROWS = (1, 2, 3, 4, 5, 8, 16, 17, 64)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_errors_are_those_of_16_bits(
    form: str, graphs: bool, upstream_programs: Callable[[str, str], Path]
) -> None:
    folder = upstream_programs(form, "listed")
    options = {"CudaBackend": {"cuda_graphs": graphs}}
    with Program(folder / "model.pte", data_files=sorted(folder.glob("*.ptd"))) as program:
        for name, x, exact, usual in torch.load(folder / "calls.pt"):
            with program.method(name, options=options) as method:
                for _ in range(4):
                    (found,) = _outputs(method(x))
                    assert found.dtype == torch.bfloat16
                    assert _distance(found, exact) <= 1.2 * _distance(usual, exact), name


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("form", [form for form in FORMS if not form.startswith("tiles")])
@pytest.mark.parametrize(("least", "most"), [(1, 4), (5, ROWS[-1])])
def test_any_rows_that_we_lowered(form: str, graphs: bool, least: int, most: int) -> None:
    """In a process of its own: what registers upstream's weights changes those of torchao."""
    paths = os.pathsep.join((str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")))
    command = [sys.executable, __file__, form, str(int(graphs)), str(least), str(most)]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def check_any_rows(form: str, graphs: bool, least: int, most: int) -> None:
    """Lower upstream's op for some numbers of rows, run it, and compare.

    Upstream's own code asks whether there are more than four, as does torch.export then.
    """
    from upstream_small_weights import K, PlainProduct, small_weight

    weight = small_weight(form)
    product = PlainProduct(form, weight.layer)
    rows = Dim("rows", min=least, max=most)
    x = torch.randn(most - 1, K, dtype=torch.bfloat16)
    program = lower(product, (x,), partitioner=CudaPartitioner(), dynamic_shapes=({0: rows},))
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    with Program(bytes(program.buffer)) as loaded, loaded.method(options=options) as method:
        for count in filter(range(least, most + 1).__contains__, ROWS):
            x = torch.randn(count, K, dtype=torch.bfloat16)
            exact = x.double() @ weight.values.t()
            usual = (x.double() @ weight.values.bfloat16().double().t()).bfloat16()
            for _ in range(3 if graphs else 1):
                (found,) = _outputs(method(x))
                assert _distance(found, exact) <= 1.2 * _distance(usual, exact), count


def _outputs(results: Any) -> tuple[torch.Tensor, ...]:
    return tuple(result.cpu() for result in results)


def _distance(result: torch.Tensor, exact: torch.Tensor) -> float:
    return float((result.double() - exact).norm())


if __name__ == "__main__":
    check_any_rows(sys.argv[1], sys.argv[2] == "1", int(sys.argv[3]), int(sys.argv[4]))
