"""Recipes of our devices for optimum-executorch: ``aoti_cpu``, ``aoti_cuda`` and ``aoti_mps``.

optimum-executorch finds recipes in its own folder alone. Importing this module makes these known:

    import aoti_plugins.optimum_recipes
    from optimum.exporters.executorch import main_export

    main_export("Llama-3.2-1B", "text-generation", "aoti_cuda", "llama",
                recipe_kwargs={"target": "h100"})

Run as ``python -m aoti_plugins.optimum_recipes``, it is ``optimum-cli`` with these recipes; options
of the partitioner come first: ``--option target=h100 export executorch --recipe aoti_cuda ...``.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Sequence
from typing import Any

from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from optimum.exporters.executorch.recipe_registry import register_recipe

from aoti_plugins.cpu.partitioner import CpuPartitioner
from aoti_plugins.cuda.partitioner import CudaPartitioner
from aoti_plugins.errors import LoweringError
from aoti_plugins.mps.partitioner import MpsPartitioner

_OPTION = "--option"
_PARTITIONERS = {
    "aoti_cpu": CpuPartitioner,
    "aoti_cuda": CudaPartitioner,
    "aoti_mps": MpsPartitioner,
}
_options: dict[str, Any] = {}
"""Options of the partitioner, from the command line."""


def lower(recipe: str, model: Any, **options: Any) -> dict[str, Any]:
    """Export a model of optimum-executorch and lower it; what its registry calls a recipe.

    Args:
        recipe: one of ours.
        model: an exportable module of optimum-executorch, which has ``export`` and ``metadata``.
        options: of the partitioner (``recipe_kwargs`` of ``main_export``).

    Returns:
        The program of ``model.pte``, by that name.

    Raises:
        LoweringError: an option that the partitioner does not have, or the model cannot be lowered.
    """
    try:
        partitioner = _PARTITIONERS[recipe](**{**_options, **options})
    except TypeError as error:
        raise LoweringError(f"recipe {recipe}: {error}") from error
    methods = model.export()
    if len(methods) == 1:
        methods = {"forward": next(iter(methods.values()))}
    edge = to_edge_transform_and_lower(
        methods,
        partitioner=[partitioner],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
        constant_methods=model.metadata,
    )
    return {"model": edge.to_executorch()}


def main(arguments: Sequence[str]) -> None:
    """Run ``optimum-cli``; ``--option NAME=VALUE`` in front of its command is the partitioner's.

    Raises:
        LoweringError: an option that the recipe's partitioner does not have.
    """
    from optimum.commands.optimum_cli import main as optimum_main

    from aoti_plugins.cli._options import parse_options

    rest, texts = list(arguments), []
    while rest[:1] == [_OPTION] and len(rest) > 1:
        texts.append(rest[1])
        del rest[:2]
    recipe = dict(itertools.pairwise(rest)).get("--recipe", "")
    known = _PARTITIONERS.get(recipe, CpuPartitioner)
    _options.update(parse_options(texts, known))
    sys.argv[1:] = rest
    optimum_main()


for _name in _PARTITIONERS:
    register_recipe(_name)(functools.partial(lower, _name))

if __name__ == "__main__":
    main(sys.argv[1:])
