"""ExecuTorch's recipes of our devices, exported with its own ``executorch.export``."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.export import ExportRecipe, recipe_registry
from executorch.export import export as export_with
from torch import nn
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup

from aoti_plugins.errors import LoweringError
from aoti_plugins.recipes import INT4_GROUP, CpuRecipe, CudaRecipe, MpsRecipe
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.filterwarnings("ignore:This API and all of its related functionality")
"""ExecuTorch's word for executorch.export."""


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(256, 64), nn.SiLU(), nn.Linear(64, 8)).eval()


X = torch.randn(3, 256, generator=torch.Generator().manual_seed(2))


def saved(recipe: Any, path: Path, **options: Any) -> Path:
    chosen = ExportRecipe.get_recipe(recipe, **options)
    export_with(model(), [(X,)], chosen).save_to_pte(str(path))
    return path


@pytest.mark.parametrize(
    ("recipe", "config"),
    [
        (CpuRecipe.PLAIN, None),
        (CpuRecipe.INT8, IntxWeightOnlyConfig(torch.int8, PerAxis(0))),
        (CpuRecipe.INT4, IntxWeightOnlyConfig(torch.int4, PerGroup(32))),
    ],
    ids=["plain", "int8", "int4"],
)
def test_programs_for_the_cpu_run(recipe: CpuRecipe, config: Any, tmp_path: Path) -> None:
    options = {"group_size": 32} if recipe is CpuRecipe.INT4 else {}
    path = saved(recipe, tmp_path / "model.pte", **options)
    expected = copy.deepcopy(model())
    if config is not None:
        quantize_(expected, config)
    with Program(path) as program:
        (found,) = program.method()(X)
    torch.testing.assert_close(torch.as_tensor(found), expected(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("recipe", "backend", "options"),
    [
        (CudaRecipe.INT4, "AotiCudaBackend", {"target": "h100", "group_size": 64}),
        (MpsRecipe.INT8, "AotiMpsBackend", {}),
    ],
    ids=["cuda", "mps"],
)
def test_programs_for_gpus_are_whole(
    recipe: Any, backend: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = saved(recipe, tmp_path / "model.pte", **options)
    plan = deserialize_pte_binary(path.read_bytes()).program.execution_plan[0]
    assert [one.id for one in plan.delegates] == [backend]
    assert plan.operators == []


def test_executorch_lists_them() -> None:
    for recipes in (CpuRecipe, CudaRecipe, MpsRecipe):
        backend = recipes.get_backend_name()
        assert backend in recipe_registry.list_backends()
        assert list(recipe_registry.get_supported_recipes(backend)) == list(recipes)
    assert INT4_GROUP == 128


def test_what_a_recipe_does_not_have_is_an_error() -> None:
    with pytest.raises(LoweringError, match="aoti_cpu has no weights to divide into groups"):
        ExportRecipe.get_recipe(CpuRecipe.PLAIN, group_size=32)
    with pytest.raises(LoweringError, match=r"aoti_cpu_int8.*max_autotune"):
        ExportRecipe.get_recipe(CpuRecipe.INT8, max_autotune=True)
    with pytest.raises(LoweringError, match="h1000"):
        ExportRecipe.get_recipe(CudaRecipe.PLAIN, target="h1000")
    provider = recipe_registry._providers["aoti_cpu"]
    assert provider.create_recipe(CudaRecipe.PLAIN) is None
