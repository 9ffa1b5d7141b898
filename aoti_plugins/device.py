"""A device as one value: everything in which devices differ, from its targets to its libraries.

Partitioner, plugin, pipeline, command line and runtime work with any of them. A device of another
package is found like the built-in ones (``docs/adding-a-device.md``). Programs run without torch,
so nothing here imports it; what needs it is named with ``later``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.errors import LoweringError
from aoti_plugins.payload.header import PayloadFlag
from aoti_plugins.types import GraphPass, Target

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from aoti_plugins.lowering.artifacts.shared_object import (
        BlobHeaders,
        SharedObject,
        SharedObjectBuild,
    )
    from aoti_plugins.lowering.inductor.capture import GeneratedCode, GpuKernel

_SHARED_OBJECT = "aoti_plugins.lowering.artifacts.shared_object"

Environment = Callable[[Target, LoweringOptions], AbstractContextManager[None]]
"""Patches under which Inductor works for a target, with the user's options."""


def later_value(place: str) -> Callable[[], Any]:
    """A function that imports something and returns it.

    Args:
        place: module and name, such as ``"acme.partitioner:AcmePartitioner"``.
    """
    module, _, name = place.partition(":")
    return lambda: getattr(import_module(module), name)


def later(place: str) -> Callable[..., Any]:
    """A function that is imported when it is called; the place is as of ``later_value``."""
    value = later_value(place)
    return lambda *args: value()(*args)


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


def check_host_compiler(target: Target) -> None:
    """See that there is a compiler for the target's host code.

    Raises:
        LoweringError: it has none; says what to install.
    """
    from aoti_plugins.lowering.artifacts.cxx import cxx_compiler

    cxx_compiler(target.machine, target.name)


@dataclass(frozen=True)
class Device:
    """One device, as lowering, command line and runtime see it.

    Attributes:
        name: what users and hooks call it, such as ``"cpu"``.
        backend: returns its backend class; programs ask for the delegate by the name of that.
        partitioner: returns the class of its partitioner.
        libraries: the delegate's libraries in the order in which they are loaded, its own last:
            names of files of this package, or absolute paths. Code may call the C shims of all of
            them. Empty where the device has no delegate on this system.
        targets: what one can lower for.
        default_target: name of the target when the user gives none.
        environment: for generating code.
        probe_environment: for asking what code would be generated; compiles nothing.
        decompositions: of ops that Inductor does not generate.
        kernels: ops of ATen that the delegate has kernels for, each with the dtypes these take.
        passes: over the program of a partition, beside those that every device needs, by the
            user's options.
        inductor_options: options of Inductor, by the user's.
        aliases: names that stand for a target found on this machine, for instance ``"native"``.
        torch_device: where the program's tensors are while code is generated.
        delegate_name: what its delegate calls itself in payloads; empty: as the device.
        headers: what the C++ of a blob for a target is compiled with.
        kernel_image: what is embedded for one GPU kernel; called while the wrapper is compiled.
        build: compiles and links the generated code.
        features: what a machine must have to run some code.
        missing_dtypes: names of dtypes that the device does not have, each with why.
        check_target: raises for a target whose properties the device could not lower for.
        check_tools: says what is missing on this machine to lower for a target, before anything
            is done.
        payload_flags: choices of the user and of this process that programs keep.
        api: the version of the hooks that the device was written for.
    """

    name: str
    backend: Callable[[], type]
    partitioner: Callable[[], Callable[..., Any]]
    libraries: tuple[str | Path, ...]
    targets: Callable[[], Iterable[Target]]
    default_target: Callable[[], str]
    environment: Environment
    probe_environment: Environment
    decompositions: Callable[[], Mapping[OpOverload, Callable[..., Any]]]
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passes: Callable[[LoweringOptions], Iterable[GraphPass]] = lambda _: ()
    inductor_options: Callable[[LoweringOptions], Mapping[str, Any]] = lambda _: {}
    aliases: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    torch_device: str = "cpu"
    delegate_name: str = ""
    headers: Callable[[Target], BlobHeaders] = lambda _: later(f"{_SHARED_OBJECT}:BlobHeaders")()
    kernel_image: Callable[[Target, GpuKernel], bytes] = lambda _, kernel: kernel.binary
    build: Callable[[GeneratedCode, SharedObjectBuild, Target, LoweringOptions], SharedObject] = (
        lambda code, build, *_: later(f"{_SHARED_OBJECT}:build_shared_object")(code, build)
    )
    features: Callable[[Target, GeneratedCode, LoweringOptions], tuple[str, ...]] = (
        lambda target, *_: target.features
    )
    missing_dtypes: Mapping[str, str] = field(default_factory=dict)
    check_target: Callable[[Target], None] = check_flags
    check_tools: Callable[[Target], None] = check_host_compiler
    payload_flags: Callable[[LoweringOptions], PayloadFlag] = lambda _: PayloadFlag.NONE
    api: int = 1

    @property
    def torch_type(self) -> str:
        """PyTorch's name for it, which is in the names of C shims and headers."""
        return self.torch_device.partition(":")[0]

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
