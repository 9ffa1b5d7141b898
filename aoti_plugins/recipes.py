"""Recipes for ``executorch.export``: a model, plain or with small weights, for one of our devices.

Importing this module registers them with ExecuTorch:

    from aoti_plugins.recipes import CudaRecipe
    from executorch.export import ExportRecipe, export

    recipe = ExportRecipe.get_recipe(CudaRecipe.INT4, target="h100")
    export(model, [example_inputs], recipe).save_to_pte("model.pte")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from executorch.export import (
    AOQuantizationConfig,
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    RecipeType,
    recipe_registry,
)
from torchao.quantization import IntxWeightOnlyConfig
from torchao.quantization.granularity import Granularity, PerAxis, PerGroup

from aoti_plugins.cpu.partitioner import CpuPartitioner
from aoti_plugins.cuda.partitioner import CudaPartitioner
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.partitioner import DevicePartitioner
from aoti_plugins.mps.partitioner import MpsPartitioner

INT4_GROUP = 128
"""Weights of 4 bits that have one scale, unless a recipe is told otherwise."""


class DeviceRecipe(RecipeType):
    """Recipes of one device; the plain one has the provider's name."""

    @classmethod
    def get_backend_name(cls) -> str:
        """Under which ExecuTorch finds the provider."""
        return str(cls.PLAIN.value)


class CpuRecipe(DeviceRecipe):
    """Programs for CPUs."""

    PLAIN = "aoti_cpu"
    INT8 = "aoti_cpu_int8"
    INT4 = "aoti_cpu_int4"


class CudaRecipe(DeviceRecipe):
    """Programs for NVIDIA GPUs."""

    PLAIN = "aoti_cuda"
    INT8 = "aoti_cuda_int8"
    INT4 = "aoti_cuda_int4"


class MpsRecipe(DeviceRecipe):
    """Programs for Apple GPUs."""

    PLAIN = "aoti_mps"
    INT8 = "aoti_mps_int8"
    INT4 = "aoti_mps_int4"


_BITS = {"INT8": torch.int8, "INT4": torch.int4}


class RecipeProvider(BackendRecipeProvider):
    """Makes the recipes of one device.

    Args:
        recipes: their names.
        partitioner: the device's.
    """

    def __init__(self, recipes: type[DeviceRecipe], partitioner: type[DevicePartitioner]) -> None:
        self._recipes = recipes
        self._partitioner = partitioner

    @property
    def backend_name(self) -> str:
        """The name that its recipes carry."""
        return self._recipes.get_backend_name()

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """All recipes of the device."""
        return list(self._recipes)

    def create_recipe(
        self, recipe_type: RecipeType, *, group_size: int | None = None, **options: Any
    ) -> ExportRecipe | None:
        """Make a recipe.

        Args:
            recipe_type: one of the device's.
            group_size: how many weights of a row have one scale, for ``INT4`` (``INT4_GROUP`` by
                default) and ``INT8`` (a whole row). It has to divide the rows of all layers.
            options: arguments of the partitioner, ``target`` for instance.

        Returns:
            The recipe; ``None`` for another device's, as ExecuTorch expects it.

        Raises:
            LoweringError: an option that the recipe does not have.
        """
        if not isinstance(recipe_type, self._recipes):
            return None
        name, dtype = recipe_type.value, _BITS.get(recipe_type.name)
        if dtype is None and group_size is not None:
            raise LoweringError(f"recipe {name} has no weights to divide into groups")
        try:
            partitioner = self._partitioner(**options)
        except TypeError as error:
            raise LoweringError(f"recipe {name}: {error}") from error
        return ExportRecipe(
            name=name,
            quantization_recipe=None if dtype is None else _quantization(dtype, group_size),
            lowering_recipe=LoweringRecipe(partitioners=[partitioner]),
        )


def _quantization(dtype: torch.dtype, group_size: int | None) -> QuantizationRecipe:
    default = INT4_GROUP if dtype == torch.int4 else None
    group = default if group_size is None else group_size
    granularity: Granularity = PerAxis(0) if group is None else PerGroup(group)
    config = IntxWeightOnlyConfig(dtype, granularity)
    return QuantizationRecipe(ao_quantization_configs=[AOQuantizationConfig(config)])


for _provider in (
    RecipeProvider(CpuRecipe, CpuPartitioner),
    RecipeProvider(CudaRecipe, CudaPartitioner),
    RecipeProvider(MpsRecipe, MpsPartitioner),
):
    recipe_registry.register_backend_recipe_provider(_provider)
