"""The cost model against configurations that were timed on an H100."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoti_plugins.cuda.target import GPUS, target_by_name
from aoti_plugins.cuda.tuning import cost_model
from aoti_plugins.cuda.tuning.cost_model import Launch, Product, Tile, Traffic

DATA = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data/h100_configs.json.gz").read_bytes())
)
H100 = target_by_name("h100")
ITEMSIZE = {"bfloat16": 2, "float32": 4}


def _mean(ratios: Iterable[float]) -> float:
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))


def _product(one: dict[str, Any]) -> Product:
    sizes = (one[key] for key in ("M", "N", "K", "B"))
    return Product(*sizes, itemsize=ITEMSIZE[one["dtype"]], rate=one["dtype"])


def _tile(candidate: dict[str, Any]) -> Tile:
    return Tile(*candidate["tile"], num_stages=candidate["stages"])


def _launch(candidate: dict[str, Any], blocks: int) -> Launch:
    return Launch(
        blocks,
        candidate["warps"],
        candidate["registers"],
        candidate["spills"],
        candidate["shared"],
    )


def _compiled_time(product: Product, candidate: dict[str, Any]) -> float:
    launch = _launch(candidate, candidate["blocks"])
    return cost_model.template_time(H100, launch, product, _tile(candidate))


def _expected_time(product: Product, candidate: dict[str, Any]) -> float:
    tile = _tile(candidate)
    launch = cost_model.expected_launch(
        H100, product, tile, candidate["warps"], candidate["blocks"]
    )
    return cost_model.template_time(H100, launch, product, tile)


def _few_rows_time(candidate: dict[str, Any]) -> float:
    rows, columns, depth = candidate["sizes"]
    traffic = Traffic(
        nbytes=2 * (rows * depth + columns * depth + rows * columns),
        steps=-(-depth // candidate["block"][1]),
        instructions=candidate["instructions"],
        reduces=True,
    )
    return cost_model.kernel_time(H100, _launch(candidate, candidate["grid"][0]), traffic)


def _kernel_time(kernel: dict[str, Any], candidate: dict[str, Any]) -> float:
    config = candidate["config"]
    depth = kernel["numels"].get("r0_numel", 1)
    elements = kernel["numels"]["xnumel"] * depth
    nbytes = sum(
        min(math.prod(shape), elements) * (ITEMSIZE.get(dtype, 8))
        for _, shape, _, dtype in kernel["tensors"]
    )
    steps = -(-depth // config.get("R0_BLOCK", depth))
    traffic = Traffic(nbytes, steps, candidate["ptx"]["instructions"], reduces=depth > 1)
    launch = Launch(
        math.prod(candidate["grid"]),
        config["num_warps"],
        candidate["registers"],
        candidate["spills"],
        candidate["shared"],
    )
    return cost_model.kernel_time(H100, launch, traffic)


@pytest.mark.parametrize("estimate", [_compiled_time, _expected_time])
def test_templates_of_matrix_products(estimate: Any) -> None:
    ratios, first = [], []
    for one in DATA["products"]:
        product, candidates = _product(one), one["templates"]
        chosen = min(candidates, key=lambda candidate: estimate(product, candidate))
        best = min(candidate["us"][0] for candidate in candidates)
        ratios.append(best / chosen["us"][0])
        first.append(best / candidates[0]["us"][0])
    assert len(ratios) > 30
    assert _mean(ratios) > 0.95
    assert _mean(first) < 0.5


def test_template_or_library() -> None:
    ratios = []
    for one in DATA["products"]:
        product = _product(one)
        chosen = min(one["templates"], key=lambda c: _expected_time(product, c))
        library = min(cold for cold, _ in one["extern"].values())
        by_library = cost_model.library_time(H100, product) < _expected_time(product, chosen)
        best = min(library, *(candidate["us"][0] for candidate in one["templates"]))
        ratios.append(best / (library if by_library else chosen["us"][0]))
    assert _mean(ratios) > 0.95


def test_one_to_a_few_rows() -> None:
    groups: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for candidate in DATA["few_rows"]:
        groups.setdefault(tuple(candidate["sizes"]), []).append(candidate)
    ratios = [
        min(one["us"][0] for one in candidates) / min(candidates, key=_few_rows_time)["us"][0]
        for candidates in groups.values()
    ]
    assert len(ratios) == 16
    assert _mean(ratios) > 0.93


def test_loads_from_far_apart_take_longer_than_the_bytes() -> None:
    # A 3 x 3 pool on an H100, with eight elements to a thread and with two.
    for launch, lines, measured in (
        (Launch(6272, 4, 40), 584, 73.8),
        (Launch(12544, 8, 30), 74, 48.0),
    ):
        estimated = cost_model.kernel_time(H100, launch, Traffic(129 << 20, lines=lines))
        assert 0.8 < estimated / measured < 1.2
        of_bytes = cost_model.kernel_time(H100, launch, Traffic(129 << 20))
        assert (estimated > 1.3 * of_bytes) == (lines == 584)


def test_generated_kernels() -> None:
    for kernel in DATA["kernels"]:
        candidates = kernel["candidates"]
        chosen = min(candidates, key=lambda candidate: _kernel_time(kernel, candidate))
        best = min(candidate["cold_us"] for candidate in candidates)
        assert best / chosen["cold_us"] > 0.9, kernel["name"]


def test_estimates_are_near_the_measurements() -> None:
    errors = []
    for one in DATA["products"]:
        fastest = sorted(one["templates"], key=lambda candidate: candidate["us"][0])[:5]
        errors += [math.log(_compiled_time(_product(one), c) / c["us"][0]) for c in fastest]
    assert math.sqrt(sum(error**2 for error in errors) / len(errors)) < 0.35


@pytest.mark.parametrize(
    ("launch", "blocks"),
    [
        (Launch(1, 4, 32), 16),  # 2048 threads
        (Launch(1, 1, 16), 32),  # blocks
        (Launch(1, 4, 255), 2),  # registers: 8 warps
        (Launch(1, 8, 168, shared_nbytes=100 * 1024), 1),
        (Launch(1, 4, 32, shared_nbytes=112 * 1024), 2),
        (Launch(1, 4, 32, shared_nbytes=227 * 1024), 1),
        (Launch(1, 4, 32, shared_nbytes=227 * 1024 + 1), 0),
    ],
)
def test_occupancy_on_h100(launch: Launch, blocks: int) -> None:
    assert cost_model.blocks_per_multiprocessor(H100, launch) == blocks


def test_what_does_not_fit_takes_forever() -> None:
    launch = Launch(100, 4, 64, shared_nbytes=120 * 1024)
    product, tile = Product(64, 64, 64, 1, 2, "bfloat16"), Tile(64, 64, 64, 3)
    portable = target_by_name("portable")
    assert cost_model.template_time(portable, launch, product, tile) == math.inf
    assert cost_model.kernel_time(portable, launch, Traffic(1 << 20)) == math.inf
    assert cost_model.template_time(H100, launch, product, tile) < 20


def test_nothing_to_do() -> None:
    assert cost_model.kernel_time(H100, Launch(0, 4, 32), Traffic(0)) < 2


@given(
    gpu=st.sampled_from(GPUS),
    warps=st.sampled_from([1, 2, 4, 8, 16]),
    registers=st.integers(16, 64),
    blocks=st.integers(1, 10000),
    nbytes=st.integers(0, 1 << 32),
    steps=st.integers(1, 1000),
)
def test_more_work_never_takes_less(
    gpu: Any, warps: int, registers: int, blocks: int, nbytes: int, steps: int
) -> None:
    launch = Launch(blocks, warps, registers)
    traffic = Traffic(nbytes, steps, 100, True)
    time = cost_model.kernel_time(gpu, launch, traffic)
    assert 0 < time < math.inf
    more = dataclasses.replace(traffic, nbytes=2 * nbytes + 1)
    assert cost_model.kernel_time(gpu, launch, more) >= time
    spilled = dataclasses.replace(launch, spills=200)
    assert cost_model.kernel_time(gpu, spilled, traffic) >= time


@given(st.integers(1, 8192), st.integers(1, 8192), st.integers(1, 8192), st.sampled_from(GPUS))
def test_library_time_is_above_the_floor(m: int, n: int, k: int, gpu: Any) -> None:
    product = Product(m, n, k, 1, 2, "bfloat16")
    floor = max(product.nbytes / gpu.memory_bandwidth, product.flops / gpu.f16_flops) * 1e6
    assert cost_model.library_time(gpu, product) > floor
