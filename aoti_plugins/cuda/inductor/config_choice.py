"""Answer Inductor's timing questions from records or the cost model, or keep what it measures.

Inductor chooses the configuration of a kernel, and between templates and libraries for a matrix
product, by running the candidates. Without a GPU none can run. ``choose_configs`` puts measured
records in the place of the measurements, and where there is no record the cost model;
``measured_configs`` keeps the measurements, adds to a library's time what cannot be fused into its
call, and writes down what it found.

Patched: ``CachingAutotuner.precompile`` (a recorded configuration is the only candidate, of many
candidates only the promising are compiled, and kernels beside each other),
``CachingAutotuner.bench``, and of ``AlgorithmSelectorCache`` ``make_precompile_fn`` and
``do_autotuning``: templates are ranked without being compiled, because what they need is known from
their tiles.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any

import torch

from aoti_plugins.cuda.inductor import few_rows
from aoti_plugins.cuda.inductor.compiled_beside import begun_when_defined, compiled_beside
from aoti_plugins.cuda.inductor.kernel_choice import (
    KernelChoice,
    config_dict,
    has_choice,
    key_of,
)
from aoti_plugins.cuda.inductor.product_choice import (
    ProductChoice,
    measured_product,
    no_precompilation,
    with_cost_of_fusion,
)
from aoti_plugins.cuda.target import CudaTarget
from aoti_plugins.cuda.tuning.records import Entry, Records
from aoti_plugins.lowering.inductor.patching import patch, replaced
from aoti_plugins.lowering.inductor.versions import torch_version

logger = logging.getLogger(__name__)

_SHOWN_MISSES = 10


@patch(
    "torch._inductor.runtime.triton_heuristics.CachingAutotuner.precompile(self, warm_cache_only)",
    "torch._inductor.runtime.triton_heuristics.CachingAutotuner._precompile_worker(self)",
    "torch._inductor.runtime.triton_heuristics.CachingAutotuner.bench("
    "self, launcher, args, kwargs)",
    "torch._inductor.select_algorithm.AlgorithmSelectorCache.make_precompile_fn("
    "self, choices, name, inputs_key)",
    "torch._inductor.select_algorithm.AlgorithmSelectorCache.do_autotuning("
    "self, name, input_nodes, layout, input_gen_fns, inputs_key, choices, precompile_fn)",
    why="Inductor would time candidates on a GPU that is not there.",
    until="Inductor takes a function that times a choice",
)
def choose_configs(target: CudaTarget, records: Records | None = None) -> Iterator[None]:
    """Choose configurations for a GPU without running anything.

    Args:
        target: the GPU.
        records: measured configurations; they decide where they know the kernel. What they did not
            know is logged at the end and stays readable as ``records.misses``.
    """
    from torch._inductor import config
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    asked = Records() if records is None else records
    products = ProductChoice(target, asked)
    # These would be timed too: fusions with templates, and whether padding a product pays.
    options = {
        timed_fusions(): False,
        "shape_padding": False,
        "autotune_in_subproc": False,
    }
    # A record may name any configuration of the kernel for few rows; else the best one will do.
    offered = few_rows.few_rows_choice(target, most=1 if records is None else few_rows.ALL)
    with config.patch(options), offered, compiled_beside() as beside:
        kernels = KernelChoice(target, asked, beside)
        with (
            replaced(CachingAutotuner, "precompile", kernels.precompile),
            replaced(CachingAutotuner, "bench", kernels.bench),
            begun_when_defined(kernels.begin),
            replaced(AlgorithmSelectorCache, "make_precompile_fn", no_precompilation),
            replaced(AlgorithmSelectorCache, "do_autotuning", products.do_autotuning),
        ):
            yield
    if records is not None:
        _report(records)


@patch(
    "torch._inductor.runtime.triton_heuristics.CachingAutotuner.bench("
    "self, launcher, args, kwargs)",
    "torch._inductor.select_algorithm.AlgorithmSelectorCache.do_autotuning("
    "self, name, input_nodes, layout, input_gen_fns, inputs_key, choices, precompile_fn)",
    why="What Inductor measures would be forgotten.",
    until="Inductor takes a function that times a choice",
)
def measured_configs(target: CudaTarget, records: Records) -> Iterator[None]:
    """Let Inductor measure on the GPU of this machine, and add what it finds to the records.

    Args:
        target: the GPU of this machine.
        records: gets an entry for every kernel and matrix product that has more than one candidate.
    """
    from torch._inductor import config
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    made_with = _versions(target)

    def bench(original: Any, self: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
        milliseconds: float = original(self, launcher, *args, **kwargs)
        if has_choice(self) and math.isfinite(milliseconds) and milliseconds > 0:
            key = key_of(target, self)
            found = config_dict(launcher.config)
            records.add(Entry(key, found, milliseconds * 1e3, made_with))
        return milliseconds

    def autotune(
        original: Any, self: Any, name: str, input_nodes: Any, layout: Any, *rest: Any, **more: Any
    ) -> Any:
        timings = original(self, name, input_nodes, layout, *rest, **more) or {}
        entry = measured_product(target, name, input_nodes, layout, timings, made_with)
        if entry is not None:
            records.add(entry)
        return with_cost_of_fusion(timings)

    with (
        replaced(CachingAutotuner, "bench", bench),
        replaced(AlgorithmSelectorCache, "do_autotuning", autotune),
        # It would time templates with and without what is fused, but not the launch it saves.
        config.patch({timed_fusions(): False}),
    ):
        yield


def timed_fusions() -> str:
    """The option under which Inductor times templates with what is fused into them."""
    renamed = torch_version() >= (2, 15)
    return "benchmark_template_fusion" if renamed else "benchmark_epilogue_fusion"


def _versions(target: CudaTarget) -> dict[str, str]:
    import triton

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else target.name
    return {"torch": torch.__version__, "triton": triton.__version__, "gpu": name}


def _report(records: Records) -> None:
    missing = records.misses
    logger.info("tuning records: %d used, %d missing", len(records.hits), len(missing))
    if missing:
        shown = [f"  - {key}" for key in missing[:_SHOWN_MISSES]]
        if len(missing) > _SHOWN_MISSES:
            shown.append(f"  and {len(missing) - _SHOWN_MISSES} more")
        logger.warning(
            "the tuning records had nothing for the following; estimates decided:\n%s",
            "\n".join(shown),
        )
