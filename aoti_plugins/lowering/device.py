"""The facts in which devices differ, for the shared pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.compiler import check_compiler
from aoti_plugins.lowering.artifacts.shared_object import (
    BlobHeaders,
    SharedObject,
    SharedObjectBuild,
    build_shared_object,
)
from aoti_plugins.lowering.inductor.capture import GeneratedCode, GpuKernel
from aoti_plugins.payload import PayloadFlag
from aoti_plugins.types import Target

Environment = Callable[[Target, LoweringOptions], AbstractContextManager[None]]
"""Patches under which Inductor works for a target, with the user's options."""


def _check_compiler(target: Target) -> None:
    check_compiler(target.machine, target.name)


def check_flags(target: Target) -> None:
    """Refuse a target that does not say how C++ for it is compiled.

    Raises:
        LoweringError: what the properties lack.
    """
    flags = target.properties.get("cxx_flags")
    if not isinstance(flags, list | tuple) or not all(isinstance(flag, str) for flag in flags):
        raise LoweringError(
            f"properties['cxx_flags'] of target {target.name!r} must be a tuple of the compiler's "
            f"flags, (); found {flags!r:.60}"
        )


def _binary(target: Target, kernel: GpuKernel) -> bytes:
    del target
    return kernel.binary


def _features_of_target(
    target: Target, code: GeneratedCode, options: LoweringOptions
) -> tuple[str, ...]:
    del code, options
    return target.features


def _elf(
    code: GeneratedCode, build: SharedObjectBuild, target: Target, options: LoweringOptions
) -> SharedObject:
    del target, options
    return build_shared_object(code, build)


def _no_flags(options: LoweringOptions) -> PayloadFlag:
    del options
    return PayloadFlag.NONE


@dataclass(frozen=True)
class Device:
    """One device as the pipeline sees it.

    Attributes:
        name: ``"cpu"``, ``"cuda"`` or ``"mps"``.
        runtime_libraries: file names of the libraries that blobs need, by that soname; the C shims
            of all of them can be called.
        environment: for generating code.
        probe_environment: for asking what code would be generated; compiles nothing.
        default_target: name of the target when the user gives none.
        aliases: names that stand for a target found on this machine, for instance ``"native"``.
        torch_device: where the program's tensors are while code is generated.
        headers: what the C++ of a blob is compiled with.
        kernel_image: what is embedded for one GPU kernel.
        build: compiles and links the generated code.
        features: what a machine must have to run some code.
        missing_dtypes: dtypes that the device does not have, each with why.
        check_target: raises for a target whose properties the device could not lower for.
        check_tools: says what is missing on this machine to lower for a target, before anything
            is done.
        payload_flags: choices of the user and of this process that programs keep.
    """

    name: str
    runtime_libraries: tuple[str, ...]
    environment: Environment
    probe_environment: Environment
    default_target: Callable[[], str]
    aliases: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    torch_device: str = "cpu"
    headers: Callable[[], BlobHeaders] = BlobHeaders
    kernel_image: Callable[[Target, GpuKernel], bytes] = _binary
    build: Callable[[GeneratedCode, SharedObjectBuild, Target, LoweringOptions], SharedObject] = (
        _elf
    )
    features: Callable[[Target, GeneratedCode, LoweringOptions], tuple[str, ...]] = (
        _features_of_target
    )
    missing_dtypes: Mapping[torch.dtype, str] = field(default_factory=dict)
    check_target: Callable[[Target], None] = check_flags
    check_tools: Callable[[Target], None] = _check_compiler
    payload_flags: Callable[[LoweringOptions], PayloadFlag] = _no_flags

    def resolve(self, names: tuple[str, ...], known: Mapping[str, Target]) -> list[Target]:
        """Look targets up by name.

        Args:
            names: what the user gave; empty for the default.
            known: targets of all plugins, by name.

        Raises:
            LoweringError: an unknown name; the message lists the known ones.
        """
        found: dict[str, Target] = {}
        for name in names or (self.default_target(),):
            resolved = self.aliases[name]() if name in self.aliases else name
            if resolved not in known:
                choice = ", ".join(sorted({*known, *self.aliases}))
                raise LoweringError(
                    f"unknown target {name!r} for device {self.name!r}; there are: {choice}"
                )
            found[resolved] = known[resolved]
        return list(found.values())
