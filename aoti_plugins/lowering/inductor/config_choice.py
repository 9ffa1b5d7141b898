"""Answer Inductor's timing questions from records or the cost model, or keep what it measures.

Inductor chooses the configuration of a kernel, and between templates and libraries for a matrix
product, by running the candidates. Without a GPU none can run. ``choose_configs`` puts measured
records in the place of the measurements, and where there is no record the cost model;
``record_configs`` leaves the measurements alone and writes them down.

Patched: ``CachingAutotuner.precompile`` (a recorded configuration is the only candidate, of many
candidates only the promising are compiled), ``CachingAutotuner.bench``, and of
``AlgorithmSelectorCache`` ``make_precompile_fn`` and ``do_autotuning``: templates are ranked
without being compiled, because what they need is known from their tiles. Tested with torch 2.11
and 2.13. Can go when Inductor takes a function that times a choice.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch

from aoti_plugins.cuda.target import CudaTarget
from aoti_plugins.cuda.tuning import cost_model
from aoti_plugins.cuda.tuning.cost_model import Launch, Product, Tile, Traffic
from aoti_plugins.cuda.tuning.records import (
    LIBRARY_CHOICE,
    TEMPLATE_CHOICE,
    Entry,
    Key,
    Records,
    kernel_key,
    product_key,
)
from aoti_plugins.lowering.inductor import few_rows

logger = logging.getLogger(__name__)

# Candidates of one kernel that are compiled; the others are dropped by a guess at what they need.
_MOST_COMPILED = 4

# Inductor's own first candidate stays unless another is better by more than the model can tell.
_FIRST_ADVANTAGE = 0.97

_SHOWN_MISSES = 10

_ITEMSIZES = {"64": 8, "32": 4, "16": 2, "8": 1, "i1": 1}
_AXES = ("x", "y", "z")
_TILE_KEYS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_stages", "num_warps")


@contextlib.contextmanager
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
    kernels = _KernelChoice(target, asked)
    products = _ProductChoice(target, asked)
    patches = (
        (CachingAutotuner, "precompile", kernels.precompile(CachingAutotuner.precompile)),
        (CachingAutotuner, "bench", kernels.bench),
        (AlgorithmSelectorCache, "make_precompile_fn", _no_precompilation),
        (AlgorithmSelectorCache, "do_autotuning", products.do_autotuning),
    )
    # These would be timed too: fusions with templates, and whether padding a product pays.
    options = {
        "benchmark_epilogue_fusion": False,
        "shape_padding": False,
        "autotune_in_subproc": False,
    }
    # A record may name any configuration of the kernel for few rows; else the best one will do.
    offered = few_rows.few_rows_choice(target, most=1 if records is None else few_rows.ALL)
    with contextlib.ExitStack() as stack:
        stack.enter_context(config.patch(options))
        stack.enter_context(offered)
        for owner, name, value in patches:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
    if records is not None:
        _report(records)


@contextlib.contextmanager
def record_configs(target: CudaTarget, records: Records) -> Iterator[None]:
    """Let Inductor measure on the GPU of this machine, and add what it finds to the records.

    Args:
        target: the GPU of this machine.
        records: gets an entry for every kernel and matrix product that has more than one candidate.
    """
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    made_with = _versions(target)
    bench, autotune = CachingAutotuner.bench, AlgorithmSelectorCache.do_autotuning

    def recorded_bench(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
        milliseconds: float = bench(self, launcher, *args, **kwargs)
        if _has_choice(self) and math.isfinite(milliseconds) and milliseconds > 0:
            key = _kernel_key(target, self)
            found = _config_dict(launcher.config)
            records.add(Entry(key, found, milliseconds * 1e3, made_with))
        return milliseconds

    def recorded_autotune(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        timings = autotune(self, name, *args, **kwargs)
        entry = _measured_product(target, name, args, kwargs, timings or {}, made_with)
        if entry is not None:
            records.add(entry)
        return timings

    with (
        mock.patch.object(CachingAutotuner, "bench", recorded_bench),
        mock.patch.object(AlgorithmSelectorCache, "do_autotuning", recorded_autotune),
    ):
        yield


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


# Pointwise kernels and reductions


class _KernelChoice:
    """Stands in for ``CachingAutotuner``'s measurements."""

    def __init__(self, target: CudaTarget, records: Records) -> None:
        self._target = target
        self._records = records

    def precompile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The method that compiles all candidates, on fewer of them."""

        def precompile(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            if tuner.configs and _has_choice(tuner):
                self._narrow(tuner)
            return original(tuner, *args, **kwargs)

        return precompile

    @property
    def bench(self) -> Callable[..., float]:
        """The method that times one candidate."""

        def bench(tuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
            del kwargs
            return self._estimate(tuner, launcher, args) / 1e3

        return bench

    def _narrow(self, tuner: Any) -> None:
        recorded = self._recorded(tuner)
        if recorded is not None:
            tuner.configs = [recorded]
            tuner.inductor_meta["dynamic_scale_rblock"] = False
        elif len(tuner.configs) > _MOST_COMPILED:
            order = sorted(
                range(len(tuner.configs)),
                key=lambda index: self._guess(tuner, tuner.configs[index]),
            )
            keep = sorted({0, *order[: _MOST_COMPILED - 1]})
            tuner.configs = [tuner.configs[index] for index in keep]

    def _recorded(self, tuner: Any) -> Any:
        from torch._inductor.runtime.triton_heuristics import Config

        key = _kernel_key(self._target, tuner)
        if len(tuner.configs) == 1 and key not in self._records:
            return None  # nothing to choose, and nothing that a measurement would have recorded
        entry = self._records.find(key)
        if entry is None:
            return None
        names = {name for config in tuner.configs for name in _config_dict(config)}
        if set(entry.config) != names:
            logger.warning(
                "the tuning record of %s is ignored: it sets %s, the kernel has %s",
                entry.key,
                ", ".join(sorted(entry.config)),
                ", ".join(sorted(names)),
            )
            return None
        rest = {name: value for name, value in entry.config.items() if not name.startswith("num_")}
        return Config(
            rest,
            num_warps=entry.config["num_warps"],
            num_stages=entry.config["num_stages"],
        )

    def _guess(self, tuner: Any, config: Any) -> float:
        """An estimate before the candidate is compiled."""
        shape = _KernelShape(tuner, config, ())
        held = 16 + shape.elements_per_thread * shape.live_registers
        registers, spills = min(255, round(held)), max(0, round(held) - 255)
        launch = Launch(shape.blocks, config.num_warps, registers, spills)
        per_element = 4 + 2 * shape.accesses
        instructions = 30 + round(shape.elements_per_thread * per_element)
        return cost_model.kernel_time(self._target, launch, shape.traffic(instructions))

    def _estimate(self, tuner: Any, launcher: Any, args: Sequence[Any]) -> float:
        if tuner.size_hints is None:
            return 1.0  # not one of Inductor's own: its first configuration
        shape = _KernelShape(tuner, launcher.config, args)
        launch = Launch(
            shape.blocks,
            launcher.config.num_warps,
            launcher.n_regs or 32,
            launcher.n_spills or 0,
            launcher.shared or 0,
        )
        traffic = shape.traffic(_instructions(tuner, launcher))
        time = cost_model.kernel_time(self._target, launch, traffic)
        is_first = tuner.launchers and tuner.launchers[0] is launcher
        return time * (_FIRST_ADVANTAGE if is_first else 1.0)


class _KernelShape:
    """Sizes of one candidate: of its grid, of a block, of what it moves.

    Attributes:
        blocks: blocks of the grid.
        steps: iterations of the reduction loop.
        elements_per_thread: elements of the iteration space that a thread holds at once.
        accesses: loads, stores and reductions in the source.
        live_registers: registers that one element takes while it is worked on.
    """

    def __init__(self, tuner: Any, config: Any, args: Sequence[Any]) -> None:
        named = _named_arguments(tuner, args)
        meta = tuner.inductor_meta
        self._tuner, self._kwargs = tuner, config.kwargs
        self._numels = {
            axis: int(named.get(f"{axis}numel", hint)) for axis, hint in tuner.size_hints.items()
        }
        outer = [axis for axis in self._numels if axis in _AXES]
        inner = [axis for axis in self._numels if axis not in _AXES]
        self.blocks = math.prod(-(-self._numels[axis] // self._block(axis)) for axis in outer)
        self.steps = math.prod(-(-self._numels[axis] // self._block(axis)) for axis in inner)
        parts = self._kwargs.get("RSPLIT", 1)
        self.blocks *= parts
        self.steps = -(-self.steps // parts)
        tile = math.prod(self._block(axis) for axis in self._numels)
        self.elements_per_thread = tile / (32 * config.num_warps)
        counts = ("num_load", "num_store", "num_reduction")
        self.accesses = sum(int(meta.get(name) or 0) for name in counts) or 2
        self.live_registers = max(1.0, 0.75 * self.accesses)
        self._named = named

    def traffic(self, instructions: int) -> Traffic:
        """What the cost model wants to know."""
        return Traffic(
            nbytes=self._nbytes(),
            steps=self.steps,
            instructions=instructions,
            reduces=any(axis not in _AXES for axis in self._numels),
            contiguous_nbytes=self._contiguous() * self._least_itemsize(),
        )

    def _block(self, axis: str) -> int:
        known = self._kwargs.get(f"{axis.upper()}BLOCK")
        if known is None:
            # A persistent reduction holds the whole axis; without an x axis a block has one.
            known = 1 if axis in _AXES else _next_power_of_two(self._numels[axis])
        return int(known)

    def _nbytes(self) -> int:
        """Each tensor once, and no more of it than there are iterations."""
        space = math.prod(self._numels.values())
        total = 0
        for name, kind in _pointers(self._tuner):
            tensor = self._named.get(name)
            count = space if not isinstance(tensor, torch.Tensor) else min(space, _extent(tensor))
            total += count * _itemsize(kind) * (2 if name.startswith("in_out") else 1)
        return total

    def _least_itemsize(self) -> int:
        return min((_itemsize(kind) for _, kind in _pointers(self._tuner)), default=4)

    def _contiguous(self) -> int:
        """Elements that lie side by side in memory within a block."""
        blocks = {axis: min(self._block(axis), size) for axis, size in self._numels.items()}
        hint = str(self._tuner.inductor_meta.get("reduction_hint", ""))
        inner = [blocks[axis] for axis in blocks if axis not in _AXES]
        if inner and "OUTER" not in hint:
            return max(1, inner[-1])
        if "y" in blocks:
            return max(1, min(blocks["x"], blocks["y"]))
        return max(1, blocks.get("x", 1))


def _has_choice(tuner: Any) -> bool:
    """Whether it is one of Inductor's own kernels with a tunable shape."""
    return tuner.size_hints is not None and not tuner.custom_kernel


def _kernel_key(target: CudaTarget, tuner: Any) -> Key:
    return kernel_key(target, source_digest(tuner), dict(tuner.size_hints))


def source_digest(tuner: Any) -> str:
    """Digest of a kernel's source and the types of its arguments, without the kernel's name."""
    source = re.sub(rf"\b{re.escape(tuner.fn.__name__)}\b", "kernel", tuner.fn.src)
    types = [str(kind) for _, kind in _signature(tuner)]
    return hashlib.sha256(f"{source}\n{types}".encode()).hexdigest()[:32]


def _config_dict(config: Any) -> dict[str, int]:
    known = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {name: int(value) for name, value in known.items()}


def _signature(tuner: Any) -> list[tuple[str, str]]:
    """Arguments that a launch passes: name and Triton type, in order."""
    return [
        (name, str(kind))
        for name, kind in tuner.triton_meta["signature"].items()
        if str(kind) != "constexpr"
    ]


def _pointers(tuner: Any) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in _signature(tuner) if kind.startswith("*")]


def _named_arguments(tuner: Any, args: Sequence[Any]) -> dict[str, Any]:
    names = [name for name, _ in _signature(tuner)]
    return dict(zip(names, args, strict=False))


def _itemsize(kind: str) -> int:
    """Bytes of an element behind a Triton pointer type such as ``*bf16`` or ``*fp8e4nv``."""
    if "fp8" in kind:
        return 1
    return next((size for ending, size in _ITEMSIZES.items() if kind.endswith(ending)), 4)


def _extent(tensor: torch.Tensor) -> int:
    """Elements that the storage of a tensor has."""
    if tensor.numel() == 0:
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((int(size) - 1) * int(stride) for size, stride in pairs)


def _next_power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


_INSTRUCTION = re.compile(r"^\s+(?:@!?%p\d+ )?[a-z][\w.:]*", re.M)


def _instructions(tuner: Any, launcher: Any) -> int:
    """Instructions in the compiled kernel's PTX; 0 if that is not at hand."""
    for result in tuner.compile_results:
        asm = getattr(result.kernel, "asm", None)
        if result.config is launcher.config and asm and "ptx" in asm:
            return len(_INSTRUCTION.findall(asm["ptx"]))
    return 0


# Matrix products


def _no_precompilation(self: Any, choices: Any, *args: Any, **kwargs: Any) -> Callable[[], Any]:
    """Stands in for ``AlgorithmSelectorCache.make_precompile_fn``."""
    del self, choices, args, kwargs
    return dict


class _ProductChoice:
    """Stands in for the measurements of matrix products and convolutions."""

    def __init__(self, target: CudaTarget, records: Records) -> None:
        self._target = target
        self._records = records

    @property
    def do_autotuning(self) -> Callable[..., dict[Any, float]]:
        """The method that times all choices of one product, in milliseconds."""

        def do_autotuning(
            cache: Any, name: str, input_nodes: Any, layout: Any, *args: Any, **kwargs: Any
        ) -> dict[Any, float]:
            # input_gen_fns and inputs_key come first.
            choices = kwargs["choices"] if "choices" in kwargs else args[2]
            del cache
            return self._timings(name, input_nodes, layout, choices)

        return do_autotuning

    def _timings(
        self, name: str, input_nodes: Any, layout: Any, choices: Sequence[Any]
    ) -> dict[Any, float]:
        product = product_of(name, input_nodes, layout)
        if product is None:
            return _first_library_choice(choices)
        recorded = self._recorded(_product_key(self._target, name, input_nodes, product), choices)
        if recorded is not None:
            choice, time = recorded
            return {choice: time / 1e3}
        times = {choice: self._estimate(product, choice) / 1e3 for choice in choices}
        possible = {choice: time for choice, time in times.items() if math.isfinite(time)}
        return self._compilable(possible) or _first_library_choice(choices)

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
        few = few_rows.estimate(self._target, product, choice)
        if few is not None:
            return few
        tile = _tile_of(choice)
        if tile is not None:
            rated = _rated(product, choice.info_dict().get("allow_tf32") == "True")
            launch = self._launch(rated, tile, choice)
            return cost_model.template_time(self._target, launch, rated, tile)
        if _is_library(choice):
            rated = _rated(product, _library_allows_tf32(choice.name))
            unfused = cost_model.CONSTANTS.unfused
            return cost_model.library_time(self._target, rated) + unfused
        return math.inf

    def _launch(self, product: Product, tile: Tile, choice: Any) -> Launch:
        tiles = -(-product.m // tile.block_m) * -(-product.n // tile.block_n) * product.batch
        warps = int(choice.info_dict()["num_warps"])
        return cost_model.expected_launch(self._target, product, tile, warps, tiles)

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


def _measured_product(
    target: CudaTarget,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    timings: Mapping[Any, float],
    made_with: Mapping[str, str],
) -> Entry | None:
    """The fastest choice of a measured product as an entry."""
    known = {c: t for c, t in timings.items() if 0 < t < math.inf and _choice_config(c)}
    nodes = kwargs["input_nodes"] if "input_nodes" in kwargs else args[0]
    layout = kwargs["layout"] if "layout" in kwargs else args[1]
    product = product_of(name, nodes, layout)
    if not known or product is None:
        return None
    best = min(known, key=known.__getitem__)
    config = _choice_config(best)
    assert config is not None
    key = _product_key(target, name, nodes, product)
    return Entry(key, config, known[best] * 1e3, made_with)
