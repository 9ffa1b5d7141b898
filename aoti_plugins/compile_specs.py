"""Typed options of a lowering, and how they travel as ExecuTorch compile specs.

Partitioners take the options as keyword arguments; ``encode`` turns them into compile specs, which
ExecuTorch hands to ``preprocess`` and stores in the program; ``decode`` reads them back. Compile
specs can also be given as such.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any

from aoti_plugins.errors import LoweringError

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

# ExecuTorch's own key: its memory planning reads it, too.
TARGET_DEVICE_COMPILE_SPEC_KEY = "target_device"

# How the method is called. No option: the partitioner adds it to one delegate of each method. Must
# match native/src/runner/method_texts.cpp.
INTERFACE_COMPILE_SPEC_KEY = "aoti_interface"

_OUR_PREFIX = "aoti_"
_FALSE, _TRUE = b"0", b"1"
_SEPARATORS = {"tuning": "\n"}  # of names that are paths; those of other lists have no comma


@dataclass(frozen=True)
class LoweringOptions:
    """What a user can choose for one delegate.

    The compile spec of a field has its name behind ``aoti_``; that of ``target_device`` is
    ExecuTorch's own.

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
        allow_missing_kernels: lowering goes on where an op stays outside that ExecuTorch has no
            kernel for.
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
    allow_missing_kernels: bool = False
    target_device: str = ""
    minimum_macos: str = ""
    gpu_cores: int = 0
    codesign_identity: str = ""

    def __post_init__(self) -> None:
        for what, names in (("a target's", self.targets), ("an excluded op's", self.exclude)):
            for name in names:
                if not name or "," in name:
                    raise LoweringError(
                        f"{what} name is not empty and has no comma; found {name!r}"
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

    given = [(key, field, getattr(options, field.name)) for key, field in _FIELDS.items()]
    return [
        CompileSpec(key, _written(field, value))
        for key, field, value in given
        if value != field.default
    ]


def decode(compile_specs: Sequence[CompileSpec]) -> LoweringOptions:
    """Read options back.

    Args:
        compile_specs: what the partitioner or the user gave to ExecuTorch.

    Raises:
        LoweringError: an unknown key that begins with ``aoti_`` (the message lists the known ones),
            a key given twice, or a value that does not parse. Other keys are for plugins.
    """
    values: dict[str, Any] = {}
    for spec in compile_specs:
        field = _FIELDS.get(spec.key)
        if field is None:
            if not spec.key.startswith(_OUR_PREFIX) or spec.key == INTERFACE_COMPILE_SPEC_KEY:
                continue  # a plugin's own, or none
            raise LoweringError(
                f"unknown compile spec {spec.key!r}; known: {', '.join(sorted(_FIELDS))}"
            )
        if field.name in values:
            raise LoweringError(f"compile spec {spec.key!r} is given twice")
        values[field.name] = _read(spec.key, field, bytes(spec.value))
    return LoweringOptions(**values)


def shares_state(compile_specs: Sequence[CompileSpec]) -> bool:
    """Whether ``share_state`` is as by default; other compile specs are not looked at."""
    return all(
        spec.key != f"{_OUR_PREFIX}share_state" or bytes(spec.value) != _FALSE
        for spec in compile_specs
    )


def without_interface(compile_specs: Sequence[CompileSpec]) -> list[CompileSpec]:
    """Compile specs as the user gave them: but for the one that the partitioner adds."""
    return [spec for spec in compile_specs if spec.key != INTERFACE_COMPILE_SPEC_KEY]


def without_files(compile_specs: Sequence[CompileSpec]) -> list[CompileSpec]:
    """Compile specs, but for those by which lowering writes files beside the program."""
    names = ("external_data", "keep_sources", "save_tuning")
    keys = {f"{_OUR_PREFIX}{name}" for name in names}
    return [spec for spec in compile_specs if spec.key not in keys]


def _key(field: Field[Any]) -> str:
    return field.name if field.name == TARGET_DEVICE_COMPILE_SPEC_KEY else _OUR_PREFIX + field.name


_FIELDS = {_key(field): field for field in fields(LoweringOptions)}


def _written(field: Field[Any], value: Any) -> bytes:
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, tuple):
        return _SEPARATORS.get(field.name, ",").join(value).encode()
    return str(value).encode()


def _read(key: str, field: Field[Any], value: bytes) -> Any:
    """Read a value as what the option's default is."""
    if isinstance(field.default, bool):
        if value not in (_FALSE, _TRUE):
            raise LoweringError(f"compile spec {key!r} is 0 or 1; found {value!r}")
        return value == _TRUE
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise LoweringError(f"compile spec {key!r} is not UTF-8: {value!r}") from error
    if isinstance(field.default, tuple):
        return tuple(text.split(_SEPARATORS.get(field.name, ","))) if text else ()
    if isinstance(field.default, int):
        if not re.fullmatch(r"[0-9]{0,9}", text):
            raise LoweringError(f"compile spec {key!r} is a number; found {text!r}")
        return int(text or "0")
    return text
