"""Typed options of a lowering, and how they travel as ExecuTorch compile specs.

Partitioners take the options as keyword arguments; ``encode`` turns them into compile specs, which
ExecuTorch hands to ``preprocess`` and stores in the program; ``decode`` reads them back. Compile
specs can also be given as such.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aoti_plugins.errors import LoweringError

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

TARGETS_COMPILE_SPEC_KEY = "aoti_targets"
EXTERNAL_DATA_COMPILE_SPEC_KEY = "aoti_external_data"
DEBUG_INFO_COMPILE_SPEC_KEY = "aoti_debug_info"
KEEP_SOURCES_COMPILE_SPEC_KEY = "aoti_keep_sources"
MAX_AUTOTUNE_COMPILE_SPEC_KEY = "aoti_max_autotune"
TUNING_COMPILE_SPEC_KEY = "aoti_tuning"
SAVE_TUNING_COMPILE_SPEC_KEY = "aoti_save_tuning"
CUDA_GRAPHS_COMPILE_SPEC_KEY = "aoti_cuda_graphs"
SHARE_STATE_COMPILE_SPEC_KEY = "aoti_share_state"
EXCLUDE_COMPILE_SPEC_KEY = "aoti_exclude"
MINIMUM_MACOS_COMPILE_SPEC_KEY = "aoti_minimum_macos"
GPU_CORES_COMPILE_SPEC_KEY = "aoti_gpu_cores"
CODESIGN_IDENTITY_COMPILE_SPEC_KEY = "aoti_codesign_identity"

# ExecuTorch's own key: its memory planning reads it, too.
TARGET_DEVICE_COMPILE_SPEC_KEY = "target_device"

_OUR_PREFIX = "aoti_"
_FALSE, _TRUE = b"0", b"1"


@dataclass(frozen=True)
class LoweringOptions:
    """What a user can choose for one delegate.

    Attributes:
        targets: names of the targets to make code for, one blob each; empty: the device's default.
        external_data: tag of the data file (``.ptd``) that takes the weights; empty: they stay in
            the program.
        debug_info: keep line tables and symbols in the blobs, for debuggers and profilers.
        keep_sources: folder that gets the generated C++ of every partition; empty: it is dropped.
        max_autotune: weigh generated kernels against the libraries for matrix products and
            convolutions (GPUs).
        tuning: files with tuning records, for choosing configurations without measuring (CUDA).
        save_tuning: file that gets what is measured on the GPU of this machine, merged with what it
            holds already (CUDA); empty: it is not written down.
        cuda_graphs: calls become CUDA graphs, unless the runtime is told otherwise (CUDA).
        share_state: the method shares the mutable buffers that a delegate keeps, by name, with the
            other methods of the program that do.
        exclude: ops that stay outside the delegate, by their whole names, for instance
            ``"aten.cumsum.default"``.
        target_device: the device to run on, with its index, for instance ``"cuda:1"``; ExecuTorch
            then plans memory there. Empty: the first one, and ExecuTorch plans none (CUDA).
        minimum_macos: the oldest macOS that the program is to run on, such as ``"14.0"`` (MPS);
            empty: the oldest one that is supported.
        gpu_cores: of the GPU that large reductions are split for (MPS); 0: those of a small one.
        codesign_identity: whose signature the code gets, on a Mac (MPS); empty: a signature ad hoc.
    """

    targets: tuple[str, ...] = ()
    external_data: str = ""
    debug_info: bool = False
    keep_sources: str = ""
    max_autotune: bool = False
    tuning: tuple[str, ...] = ()
    save_tuning: str = ""
    cuda_graphs: bool = False
    share_state: bool = True
    exclude: tuple[str, ...] = ()
    target_device: str = ""
    minimum_macos: str = ""
    gpu_cores: int = 0
    codesign_identity: str = ""

    def __post_init__(self) -> None:
        for name in self.targets:
            if not name or "," in name:
                raise LoweringError(
                    f"a target's name is not empty and has no comma; found {name!r}"
                )
        for name in self.exclude:
            if not name or "," in name:
                raise LoweringError(
                    f"an excluded op's name is not empty and has no comma; found {name!r}"
                )
        if len(set(self.targets)) != len(self.targets):
            raise LoweringError(f"a target is named twice: {', '.join(self.targets)}")
        for path in self.tuning:
            if not path or "\n" in path:
                raise LoweringError(
                    f"the path of a tuning record is not empty and is one line; found {path!r}"
                )
        if self.target_device and not re.fullmatch(r"[a-z]+(:\d+)?", self.target_device):
            raise LoweringError(
                "target_device is the name of a device, with or without an index, such as "
                f"'cuda:1'; found {self.target_device!r}"
            )
        if self.minimum_macos and not re.fullmatch(r"\d+(\.\d+)?", self.minimum_macos):
            raise LoweringError(
                f"minimum_macos is a version such as '14.0'; found {self.minimum_macos!r}"
            )
        if self.gpu_cores < 0:
            raise LoweringError(f"gpu_cores is not negative; found {self.gpu_cores}")


def encode(options: LoweringOptions) -> list[CompileSpec]:
    """Write the options that differ from their defaults as compile specs, in a fixed order."""
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    specs = []
    if options.targets:
        specs.append(CompileSpec(TARGETS_COMPILE_SPEC_KEY, ",".join(options.targets).encode()))
    if options.external_data:
        specs.append(CompileSpec(EXTERNAL_DATA_COMPILE_SPEC_KEY, options.external_data.encode()))
    if options.debug_info:
        specs.append(CompileSpec(DEBUG_INFO_COMPILE_SPEC_KEY, _TRUE))
    if options.keep_sources:
        specs.append(CompileSpec(KEEP_SOURCES_COMPILE_SPEC_KEY, options.keep_sources.encode()))
    if options.max_autotune:
        specs.append(CompileSpec(MAX_AUTOTUNE_COMPILE_SPEC_KEY, _TRUE))
    if options.tuning:
        specs.append(CompileSpec(TUNING_COMPILE_SPEC_KEY, "\n".join(options.tuning).encode()))
    if options.save_tuning:
        specs.append(CompileSpec(SAVE_TUNING_COMPILE_SPEC_KEY, options.save_tuning.encode()))
    if options.cuda_graphs:
        specs.append(CompileSpec(CUDA_GRAPHS_COMPILE_SPEC_KEY, _TRUE))
    if not options.share_state:
        specs.append(CompileSpec(SHARE_STATE_COMPILE_SPEC_KEY, _FALSE))
    if options.exclude:
        specs.append(CompileSpec(EXCLUDE_COMPILE_SPEC_KEY, ",".join(options.exclude).encode()))
    if options.target_device:
        specs.append(CompileSpec(TARGET_DEVICE_COMPILE_SPEC_KEY, options.target_device.encode()))
    if options.minimum_macos:
        specs.append(CompileSpec(MINIMUM_MACOS_COMPILE_SPEC_KEY, options.minimum_macos.encode()))
    if options.gpu_cores:
        specs.append(CompileSpec(GPU_CORES_COMPILE_SPEC_KEY, str(options.gpu_cores).encode()))
    if options.codesign_identity:
        identity = options.codesign_identity.encode()
        specs.append(CompileSpec(CODESIGN_IDENTITY_COMPILE_SPEC_KEY, identity))
    return specs


def decode(compile_specs: Sequence[CompileSpec]) -> LoweringOptions:
    """Read options back.

    Args:
        compile_specs: what the partitioner or the user gave to ExecuTorch.

    Raises:
        LoweringError: an unknown key that begins with ``aoti_`` (the message lists the known ones),
            a key given twice, or a value that does not parse. Other keys are for plugins.
    """
    values: dict[str, bytes] = {}
    for spec in compile_specs:
        if not spec.key.startswith(_OUR_PREFIX) and spec.key not in _KNOWN_KEYS:
            continue  # a plugin's own
        if spec.key not in _KNOWN_KEYS:
            raise LoweringError(
                f"unknown compile spec {spec.key!r}; known: {', '.join(sorted(_KNOWN_KEYS))}"
            )
        if spec.key in values:
            raise LoweringError(f"compile spec {spec.key!r} is given twice")
        values[spec.key] = bytes(spec.value)
    tuned = TUNING_COMPILE_SPEC_KEY in values
    targets = _text(values, TARGETS_COMPILE_SPEC_KEY)
    excluded = _text(values, EXCLUDE_COMPILE_SPEC_KEY)
    return LoweringOptions(
        targets=tuple(targets.split(",")) if targets else (),
        external_data=_text(values, EXTERNAL_DATA_COMPILE_SPEC_KEY),
        debug_info=_flag(values, DEBUG_INFO_COMPILE_SPEC_KEY),
        keep_sources=_text(values, KEEP_SOURCES_COMPILE_SPEC_KEY),
        max_autotune=_flag(values, MAX_AUTOTUNE_COMPILE_SPEC_KEY),
        tuning=tuple(_text(values, TUNING_COMPILE_SPEC_KEY).split("\n")) if tuned else (),
        save_tuning=_text(values, SAVE_TUNING_COMPILE_SPEC_KEY),
        cuda_graphs=_flag(values, CUDA_GRAPHS_COMPILE_SPEC_KEY),
        share_state=_flag(values, SHARE_STATE_COMPILE_SPEC_KEY, default=_TRUE),
        exclude=tuple(excluded.split(",")) if excluded else (),
        target_device=_text(values, TARGET_DEVICE_COMPILE_SPEC_KEY),
        minimum_macos=_text(values, MINIMUM_MACOS_COMPILE_SPEC_KEY),
        gpu_cores=_number(values, GPU_CORES_COMPILE_SPEC_KEY),
        codesign_identity=_text(values, CODESIGN_IDENTITY_COMPILE_SPEC_KEY),
    )


def shares_state(compile_specs: Sequence[CompileSpec]) -> bool:
    """Whether ``share_state`` is as by default; other compile specs are not looked at."""
    return all(
        spec.key != SHARE_STATE_COMPILE_SPEC_KEY or bytes(spec.value) != _FALSE
        for spec in compile_specs
    )


_KNOWN_KEYS = frozenset(
    (
        TARGETS_COMPILE_SPEC_KEY,
        EXTERNAL_DATA_COMPILE_SPEC_KEY,
        DEBUG_INFO_COMPILE_SPEC_KEY,
        KEEP_SOURCES_COMPILE_SPEC_KEY,
        MAX_AUTOTUNE_COMPILE_SPEC_KEY,
        TUNING_COMPILE_SPEC_KEY,
        SAVE_TUNING_COMPILE_SPEC_KEY,
        CUDA_GRAPHS_COMPILE_SPEC_KEY,
        SHARE_STATE_COMPILE_SPEC_KEY,
        EXCLUDE_COMPILE_SPEC_KEY,
        TARGET_DEVICE_COMPILE_SPEC_KEY,
        MINIMUM_MACOS_COMPILE_SPEC_KEY,
        GPU_CORES_COMPILE_SPEC_KEY,
        CODESIGN_IDENTITY_COMPILE_SPEC_KEY,
    )
)


def _text(values: dict[str, bytes], key: str) -> str:
    try:
        return values.get(key, b"").decode()
    except UnicodeDecodeError as error:
        raise LoweringError(f"compile spec {key!r} is not UTF-8: {values[key]!r}") from error


def _number(values: dict[str, bytes], key: str) -> int:
    text = _text(values, key) or "0"
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise LoweringError(f"compile spec {key!r} is a number; found {text!r}")
    return int(text)


def _flag(values: dict[str, bytes], key: str, *, default: bytes = _FALSE) -> bool:
    value = values.get(key, default)
    if value not in (_FALSE, _TRUE):
        raise LoweringError(f"compile spec {key!r} is 0 or 1; found {value!r}")
    return value == _TRUE
