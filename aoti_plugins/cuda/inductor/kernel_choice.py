"""Choose configurations of Inductor's pointwise kernels and reductions without running them.

``KernelChoice`` stands in for what ``CachingAutotuner`` measures; ``config_choice`` puts it there.
A record decides where it knows the kernel, by its source; else the cost model, fed with what the
compiled candidate needs.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections.abc import Sequence
from typing import Any

import torch

from aoti_plugins.cuda.inductor.compiled_beside import CompiledBeside
from aoti_plugins.cuda.target import WARP_SIZE, CudaTarget
from aoti_plugins.cuda.tuning import cost_model
from aoti_plugins.cuda.tuning.cost_model import Launch, Traffic
from aoti_plugins.cuda.tuning.records import Key, Records, kernel_key

logger = logging.getLogger(__name__)

# Candidates of one kernel that are compiled: the first, and those of which a guess at what they
# need says that they may be chosen, as far as there are no more of them.
_MOST_COMPILED = 4

# Inductor's own first candidate stays unless another is better by more than the model can tell.
_FIRST_ADVANTAGE = 0.97

_ITEMSIZES = {"64": 8, "32": 4, "16": 2, "8": 1, "i1": 1}
# Searches wait for numbers far apart: many at a time push each other out of the cache.
_SEARCH = "bucketize_binary_search("

# A tile that one warp holds, two elements to a thread, is reduced without barriers between warps.
_ONE_WARP = 2 * WARP_SIZE

_AXES = ("x", "y", "z")
_LINE_NBYTES = 128


class KernelChoice:
    """Stands in for ``CachingAutotuner``'s measurements."""

    def __init__(self, target: CudaTarget, records: Records, beside: CompiledBeside) -> None:
        self._target = target
        self._records = records
        self._beside = beside

    def begin(self, tuner: Any) -> None:
        """Let a thread compile all candidates, after some were left out."""
        if self._beside.is_begun(tuner):
            return
        if tuner.configs and has_choice(tuner):
            self._narrow(tuner)
        self._beside.begin(tuner, tuner._precompile_worker)

    def precompile(self, original: Any, tuner: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait until the candidates are compiled; then the rest of what Inductor does."""
        self.begin(tuner)
        self._beside.wait(tuner)
        return original(tuner, *args, **kwargs)

    def bench(self, original: Any, tuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
        """Time one candidate, in milliseconds."""
        del original, kwargs
        return self._estimate(tuner, launcher, args) / 1e3

    def _narrow(self, tuner: Any) -> None:
        recorded = self._recorded(tuner)
        if recorded is not None:
            tuner.configs = [recorded]
            tuner.inductor_meta["dynamic_scale_rblock"] = False
            return
        tuner.configs = [_with_fewest_warps(tuner, config) for config in tuner.configs]
        if _SEARCH in tuner.fn.src and list(tuner.size_hints) == ["x"]:
            tuner.configs = [min(tuner.configs, key=lambda one: _held(tuner, one))]
            return
        guesses = [self._guess(tuner, config) for config in tuner.configs]
        better = [i for i, guess in enumerate(guesses) if guess < guesses[0] * _FIRST_ADVANTAGE]
        best = sorted(better, key=lambda i: guesses[i])[: _MOST_COMPILED - 1]
        tuner.configs = [tuner.configs[i] for i in sorted({0, *best})]

    def _recorded(self, tuner: Any) -> Any:
        from torch._inductor.runtime.triton_heuristics import Config

        key = key_of(self._target, tuner)
        if len(tuner.configs) == 1 and key not in self._records:
            return None  # nothing to choose, and nothing that a measurement would have recorded
        entry = self._records.find(key)
        if entry is None:
            return None
        names = {name for config in tuner.configs for name in config_dict(config)}
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
        self._loads = _loads(tuner.fn.src)
        row = _ROW.search(tuner.fn.src)
        self._row = int(row[1]) if row else WARP_SIZE

    def traffic(self, instructions: int) -> Traffic:
        """What the cost model wants to know."""
        return Traffic(
            nbytes=self._nbytes(),
            steps=self.steps,
            instructions=instructions,
            reduces=any(axis not in _AXES for axis in self._numels),
            contiguous_nbytes=self._contiguous() * self._least_itemsize(),
            lines=self._lines(),
        )

    def _block(self, axis: str) -> int:
        known = self._kwargs.get(f"{axis.upper()}BLOCK")
        if known is None:
            # A persistent reduction holds the whole axis; without an x axis a block has one.
            known = 1 if axis in _AXES else _next_power_of_two(self._numels[axis])
        return int(known)

    def _nbytes(self) -> int:
        """Each tensor once, and no more of it than the iterations load."""
        space = math.prod(self._numels.values())
        total = 0
        for name, kind in _pointers(self._tuner):
            tensor = self._named.get(name)
            count = space
            if isinstance(tensor, torch.Tensor):
                count = min(space * max(1, len(self._loads.get(name, ()))), _extent(tensor))
            total += count * _itemsize(kind) * (2 if name.startswith("in_out") else 1)
        return total

    def _lines(self) -> float:
        """Cache lines that a warp looks up; known of kernels over one axis, without a loop.

        A thread holds as many neighbouring elements as it stores at once. Where it loads every
        second one of a row, say, it loads one at a time, and its neighbours those further on. There
        are no more lines than elements in a row: what lies far apart goes on in the next rows.
        """
        if list(self._numels) != ["x"]:
            return 0.0
        side_by_side = min(self.elements_per_thread, 16 / self._least_itemsize())
        total = 0.0
        for name, kind in _pointers(self._tuner):
            in_a_row = _itemsize(kind) * WARP_SIZE / _LINE_NBYTES
            for index in self._loads.get(name, ("x0",)):
                step = _step(index)
                apart = min(in_a_row * side_by_side * step, WARP_SIZE, self._row)
                total += self.elements_per_thread * (apart if step > 1 else in_a_row)
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


def _held(tuner: Any, config: Any) -> float:
    """Elements that a thread holds."""
    return _KernelShape(tuner, config, ()).elements_per_thread


def _with_fewest_warps(tuner: Any, config: Any) -> Any:
    """The configuration, with one warp where a persistent reduction's tile needs no more."""
    from torch._inductor.runtime.triton_heuristics import Config

    inner = [axis for axis in tuner.size_hints if axis not in _AXES]
    persistent = inner and not any(f"{axis.upper()}BLOCK" in config.kwargs for axis in inner)
    elements = _held(tuner, config) * WARP_SIZE * config.num_warps
    if not persistent or elements > _ONE_WARP:
        return config
    return Config(config.kwargs, num_warps=1, num_stages=config.num_stages)


def has_choice(tuner: Any) -> bool:
    """Whether it is one of Inductor's own kernels with a tunable shape."""
    return tuner.size_hints is not None and not tuner.custom_kernel


def key_of(target: CudaTarget, tuner: Any) -> Key:
    """The key of a kernel's record."""
    return kernel_key(target, source_digest(tuner), dict(tuner.size_hints))


def source_digest(tuner: Any) -> str:
    """Digest of a kernel's source and the types of its arguments, without the kernel's name."""
    source = re.sub(rf"\b{re.escape(tuner.fn.__name__)}\b", "kernel", tuner.fn.src)
    types = [str(kind) for _, kind in _signature(tuner)]
    return hashlib.sha256(f"{source}\n{types}".encode()).hexdigest()[:32]


def config_dict(config: Any) -> dict[str, int]:
    """A configuration of Triton's as records hold it."""
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
    """Values of a call by name.

    A call passes what comes before the configuration, sizes of 1 among it, although the compiled
    kernel has these as constants.
    """
    return dict(zip(tuner.triton_meta["signature"], args, strict=False))


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


_LOAD = re.compile(r"tl\.load\((\w+) \+ \((.*?)\), ")
_STEP = re.compile(r"\b(\d+)\*x0\b")
_ROW = re.compile(r"\bx0 = \(xindex % (\d+)\)")


def _loads(source: str) -> dict[str, list[str]]:
    """Where a kernel loads from each of its pointers: its indices, as its source has them."""
    found: dict[str, list[str]] = {}
    for name, index in _LOAD.findall(source):
        found.setdefault(name, []).append(index)
    return found


def _step(index: str) -> int:
    """How far apart neighbouring elements are loaded from; 1 if that is not known."""
    found = _STEP.search(index)
    return int(found[1]) if found else 1


_INSTRUCTION = re.compile(r"^\s+(?:@!?%p\d+ )?[a-z][\w.:]*", re.M)


def _instructions(tuner: Any, launcher: Any) -> int:
    """Instructions in the compiled kernel's PTX; 0 if that is not at hand."""
    for result in tuner.compile_results:
        asm = getattr(result.kernel, "asm", None)
        if result.config is launcher.config and asm and "ptx" in asm:
            return len(_INSTRUCTION.findall(asm["ptx"]))
    return 0
