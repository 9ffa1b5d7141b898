"""Choose among templates and libraries for matrix products and convolutions without running them.

``ProductChoice`` stands in for what ``AlgorithmSelectorCache`` measures; ``config_choice`` puts it
there. A record decides where it knows the product; else the cost model, from tiles alone.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from aoti_plugins.cuda.inductor import few_rows
from aoti_plugins.cuda.target import CudaTarget
from aoti_plugins.cuda.tuning import cost_model
from aoti_plugins.cuda.tuning.cost_model import Product, Tile
from aoti_plugins.cuda.tuning.records import (
    LIBRARY_CHOICE,
    TEMPLATE_CHOICE,
    Entry,
    Key,
    Records,
    product_key,
)

logger = logging.getLogger(__name__)

_CLEARLY_FASTER = 0.9
"""What a template may take of a library's time, both estimated, for more than few rows.

Estimates of large products are off by some percent, and without ``max_autotune`` there is the
library. A template that seemed 4 % faster than cuBLASLt (512 x 16384 x 2048) was slower on an H200,
a layer of a prompt by 5 us.
"""

_TILE_KEYS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_stages", "num_warps")


def no_precompilation(*args: Any, **kwargs: Any) -> Callable[[], Any]:
    """Stands in for ``AlgorithmSelectorCache.make_precompile_fn``."""
    del args, kwargs
    return dict


class ProductChoice:
    """Stands in for the measurements of matrix products and convolutions."""

    def __init__(self, target: CudaTarget, records: Records) -> None:
        self._target = target
        self._records = records

    def do_autotuning(
        self,
        original: Any,
        cache: Any,
        name: str,
        input_nodes: Any,
        layout: Any,
        input_gen_fns: Any,
        inputs_key: Any,
        choices: Sequence[Any],
        *rest: Any,
        **more: Any,
    ) -> dict[Any, float]:
        """Time all choices of one product, in milliseconds."""
        product = product_of(name, input_nodes, layout)
        if product is None:
            return _first_library_choice(choices)
        recorded = self._recorded(_product_key(self._target, name, input_nodes, product), choices)
        if recorded is not None:
            choice, time = recorded
            return {choice: time / 1e3}
        times = {choice: self._estimate(product, choice) / 1e3 for choice in choices}
        possible = {choice: time for choice, time in times.items() if math.isfinite(time)}
        return self._compilable(_clearly_faster(possible)) or _first_library_choice(choices)

    def _recorded(self, key: Key, choices: Sequence[Any]) -> tuple[Any, float] | None:
        entry = self._records.find(key)
        if entry is None:
            return None
        for choice in choices:
            if _choice_config(choice) == dict(entry.config):
                return choice, entry.time_us
        logger.warning(
            "the tuning record of %s is ignored: Inductor does not offer %s",
            key,
            dict(entry.config),
        )
        return None

    def _estimate(self, product: Product, choice: Any) -> float:
        tile = _tile_of(choice)
        if tile is not None:
            info = choice.info_dict()
            warps = int(info["num_warps"])
            if _is_for_few_rows(choice):
                return cost_model.few_rows_time(self._target, product, tile, warps)
            rated = _rated(product, info.get("allow_tf32") == "True")
            tiles = -(-product.m // tile.block_m) * -(-product.n // tile.block_n) * product.batch
            launch = cost_model.expected_launch(self._target, rated, tile, warps, tiles)
            return cost_model.template_time(self._target, launch, rated, tile)
        if _is_library(choice):
            rated = _rated(product, _library_allows_tf32(choice.name))
            unfused = cost_model.CONSTANTS.unfused
            return cost_model.library_time(self._target, rated) + unfused
        return math.inf

    def _compilable(self, times: dict[Any, float]) -> dict[Any, float]:
        """Drop templates from the front until the fastest surely fits into shared memory."""
        for choice in sorted(times, key=times.__getitem__):
            if self._surely_fits(choice) or _compiles(choice):
                return times
            del times[choice]
        return times

    def _surely_fits(self, choice: Any) -> bool:
        tile = _tile_of(choice)
        if tile is None:
            return True
        itemsize = max(node.get_dtype().itemsize for node in choice.input_nodes)
        nbytes = (tile.block_m + tile.block_n) * tile.block_k * itemsize * tile.num_stages
        return nbytes + tile.block_m * tile.block_n * 4 <= self._target.shared_memory_per_block


def _clearly_faster(times: dict[Any, float]) -> dict[Any, float]:
    """Without the templates that are hardly faster than a library."""
    library = min((time for choice, time in times.items() if _is_library(choice)), default=None)
    if library is None:
        return times
    return {
        choice: time
        for choice, time in times.items()
        if _is_library(choice) or _is_for_few_rows(choice) or time <= _CLEARLY_FASTER * library
    }


def _is_for_few_rows(choice: Any) -> bool:
    return few_rows.TEMPLATE_NAME in str(choice.name)


def _compiles(choice: Any) -> bool:
    try:
        choice.precompile()
    except Exception as error:  # triton and ptxas have no common one
        logger.debug("template %s does not compile: %s", choice, error)
        return False
    return True


def _first_library_choice(choices: Sequence[Any]) -> dict[Any, float]:
    """No estimate: a library if there is one, else Inductor's first choice."""
    first = next((choice for choice in choices if _is_library(choice)), choices[0])
    return {first: 1.0}


def _is_library(choice: Any) -> bool:
    from torch._inductor.select_algorithm import ExternKernelCaller

    return isinstance(choice, ExternKernelCaller)


def _tile_of(choice: Any) -> Tile | None:
    """The tile of a Triton template; ``None`` for anything else."""
    from torch._inductor.select_algorithm import TritonTemplateCaller

    if not isinstance(choice, TritonTemplateCaller):
        return None
    found = re.findall(r"-?\d+", str(choice.info_dict().get("tile_shape", "")))
    if len(found) != 3 or any(int(size) < 1 for size in found):
        return None
    block_m, block_k, block_n = map(int, found)
    return Tile(block_m, block_n, block_k, int(choice.info_dict()["num_stages"]))


def _library_allows_tf32(name: str) -> bool:
    """Whether cuBLASLt, or cuDNN for a convolution, may round float32 to TF32."""
    backend = torch.backends.cudnn if "conv" in name else torch.backends.cuda.matmul
    return bool(backend.allow_tf32)


def _rated(product: Product, allow_tf32: bool) -> Product:
    if product.rate != "float32" or not allow_tf32:
        return product
    sizes = (product.m, product.n, product.k, product.batch)
    return Product(*sizes, itemsize=product.itemsize, rate="tf32")


def product_of(name: str, input_nodes: Sequence[Any], layout: Any) -> Product | None:
    """The matrix product that an operation is; a convolution is one of patches and weights.

    Args:
        name: Inductor's name of the operation.
        input_nodes: its inputs.
        layout: of its result.

    Returns:
        ``None`` if it is no such operation.
    """
    result = _hints(layout.size)
    if "conv" in name:
        weight = _hints(input_nodes[1].get_size())
        columns = weight[0]
        rows = math.prod(result) // max(columns, 1)
        depth = math.prod(weight[1:])
        batch, first = 1, input_nodes[0]
    else:
        if len(input_nodes) < 2 or len(result) not in (2, 3) or "mm" not in name:
            return None
        first = _matrices(name, input_nodes)[0]
        *outer, rows, columns = result
        batch = math.prod(outer)
        depth = max(math.prod(_hints(first.get_size())) // max(batch * rows, 1), 1)
    dtype = str(first.get_dtype()).removeprefix("torch.")
    return Product(rows, columns, depth, batch, first.get_dtype().itemsize, dtype)


def _matrices(name: str, input_nodes: Sequence[Any]) -> Sequence[Any]:
    """The two factors: something to add comes before them, scales come after."""
    return input_nodes[-2:] if "add" in name else input_nodes[:2]


def _hints(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes as numbers; dynamic ones as the example's."""
    from torch._inductor.virtualized import V

    known = V.graph.sizevars
    ask = getattr(known, "optimization_hint", None) or known.size_hint
    return tuple(int(size) if isinstance(size, int) else int(ask(size)) for size in sizes)


def _product_key(
    target: CudaTarget, name: str, input_nodes: Sequence[Any], product: Product
) -> Key:
    strides = [_hints(node.get_stride()) for node in _matrices(name, input_nodes)]
    layout = ",".join("row" if stride and stride[-1] == 1 else "column" for stride in strides)
    sizes = (product.batch, product.m, product.n, product.k)
    dtype = _rated(product, _library_allows_tf32(name)).rate
    return product_key(target, name, sizes, dtype, layout)


def _choice_config(choice: Any) -> dict[str, str | int] | None:
    """A choice as records hold it."""
    if _is_library(choice):
        return {"choice": LIBRARY_CHOICE, "name": str(choice.name)}
    tile = _tile_of(choice)
    if tile is None:
        return None
    info = choice.info_dict()
    sizes = (tile.block_m, tile.block_n, tile.block_k, info.get("GROUP_M", 0), tile.num_stages)
    values = (*map(int, sizes), int(info["num_warps"]))
    template = re.sub(r"_\d+$", "", str(choice.name))
    return {
        "choice": TEMPLATE_CHOICE,
        "name": template,
        **dict(zip(_TILE_KEYS, values, strict=True)),
    }


def with_cost_of_fusion(timings: Mapping[Any, float]) -> dict[Any, float]:
    """Measured milliseconds, where a library also pays for what cannot be fused into its call."""
    unfused = cost_model.CONSTANTS.unfused / 1e3
    return {one: time + (unfused if _is_library(one) else 0) for one, time in timings.items()}


def measured_product(
    target: CudaTarget,
    name: str,
    input_nodes: Sequence[Any],
    layout: Any,
    timings: Mapping[Any, float],
    made_with: Mapping[str, str],
) -> Entry | None:
    """The best choice of a measured product as an entry.

    Args:
        target: the GPU.
        name: Inductor's name of the operation.
        input_nodes: its inputs.
        layout: of its result.
        timings: measured milliseconds by choice.
        made_with: versions and the GPU's name.

    Returns:
        ``None`` if nothing was measured that another lowering could choose.
    """
    known = {c: t for c, t in timings.items() if 0 < t < math.inf and _choice_config(c)}
    product = product_of(name, input_nodes, layout)
    if not known or product is None:
        return None
    rated = with_cost_of_fusion(known)
    best = min(rated, key=rated.__getitem__)
    config = _choice_config(best)
    assert config is not None
    key = _product_key(target, name, input_nodes, product)
    return Entry(key, config, known[best] * 1e3, made_with)
