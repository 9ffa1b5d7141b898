"""What hooks return and receive: frozen dataclasses that check themselves.

A wrong value raises ``TypeError`` or ``ValueError`` where the plugin creates the object, so the
traceback ends in the plugin's own code. Nothing here imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aoti_plugins.dtypes import BY_NAME

if TYPE_CHECKING:
    from torch._ops import OpOverload
    from torch.export import ExportedProgram
    from torch.fx import Node

_OP_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.\w+)?", re.ASCII)
_C_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STATUSES = ("start", "end", "fail")


@dataclass(frozen=True)
class CShim:
    """One C function that a generated wrapper calls.

    Attributes:
        name: the function's name as the wrapper writes it, e.g. ``aoti_torch_cpu_mm_out``.
        declaration: its C declaration with PyTorch's types, the final semicolon optional, e.g.
            ``AOTITorchError aoti_torch_cpu_mm_out(AtenTensorHandle out, ...)``.
    """

    name: str
    declaration: str

    def __post_init__(self) -> None:
        _require_text(self, "name")
        _require_text(self, "declaration")
        if not _C_IDENTIFIER.fullmatch(self.name):
            raise ValueError(f"CShim.name must be a C identifier, found {self.name!r}")
        if not re.search(rf"\b{self.name}\s*\(", self.declaration):
            raise ValueError(
                f"CShim.declaration must declare the function {self.name!r}, "
                f"found {self.declaration!r}"
            )


@dataclass(frozen=True)
class BuiltinRuntime:
    """The symbol is part of the delegate's own library."""


@dataclass(frozen=True)
class SharedLibrary:
    """The symbol is in a shared library that is loaded before the blob.

    Where the program runs, the library is found by its soname: loaded already, or where the system
    looks for libraries.

    Attributes:
        path: where the library is on the machine that lowers; a path object becomes a ``str``.
        soname: the name that a blob records and that the machine that runs looks for.
        version: version of the library, stored in the payload and shown in errors.
    """

    path: str
    soname: str
    version: str

    if TYPE_CHECKING:  # what it takes; dataclasses write the same for what it holds

        def __init__(self, path: str | PathLike[str], soname: str, version: str) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _path_text(self.path))
        for name in ("path", "soname", "version"):
            _require_text(self, name)
        if "/" in self.soname:
            raise ValueError(f"SharedLibrary.soname must not be a path, found {self.soname!r}")


@dataclass(frozen=True)
class LinkedObjects:
    """The symbol is in object files or static libraries that are linked into the blob.

    Attributes:
        paths: the files, in link order; at least one. A list becomes a tuple, and path objects
            become ``str``.
    """

    paths: tuple[str, ...]

    if TYPE_CHECKING:  # what it takes

        def __init__(self, paths: Sequence[str | PathLike[str]]) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.paths, list | tuple):
            object.__setattr__(self, "paths", tuple(map(_path_text, self.paths)))
        _require_texts(self, "paths")
        if not self.paths:
            raise ValueError("LinkedObjects.paths must name at least one file")


Provider: TypeAlias = BuiltinRuntime | SharedLibrary | LinkedObjects
"""What brings the symbol of a C shim into the process that runs the program."""


@dataclass(frozen=True)
class FallbackKernel:
    """A kernel for one op that Inductor does not generate code for.

    Attributes:
        op: schema name with overload, e.g. ``aten::mm.out``; an ``OpOverload``, e.g.
            ``torch.ops.aten.mm.out``, becomes its name.
        c_shims: the C functions through which a wrapper reaches the kernel; at least one.
        dtypes: torch dtype names that the kernel takes, e.g. ``("float32",)``; ``()`` is any.
        provider: what brings the symbols.
        reference: the same computation in PyTorch, for tests; ``None`` means the op itself.
    """

    op: str
    c_shims: tuple[CShim, ...]
    dtypes: tuple[str, ...] = ()
    provider: Provider = BuiltinRuntime()
    reference: Callable[..., Any] | None = None

    if TYPE_CHECKING:  # what it takes

        def __init__(
            self,
            op: str | OpOverload,
            c_shims: tuple[CShim, ...],
            dtypes: tuple[str, ...] = (),
            provider: Provider = ...,
            reference: Callable[..., Any] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if type(self.op).__name__ == "OpOverload":  # of torch, which is not imported here
            object.__setattr__(self, "op", self.op.name())  # type: ignore[attr-defined]
        _require_text(self, "op")
        if not _OP_NAME.fullmatch(self.op):
            raise ValueError(
                f"FallbackKernel.op must be a schema name like 'aten::mm.out', found {self.op!r}"
            )
        _require_tuple(self, "c_shims", CShim)
        if not self.c_shims:
            raise ValueError(f"FallbackKernel.c_shims of {self.op!r} must not be empty")
        names = [shim.name for shim in self.c_shims]
        if len(set(names)) != len(names):
            raise ValueError(f"FallbackKernel.c_shims of {self.op!r} names a shim twice: {names}")
        _require_texts(self, "dtypes")
        unknown = sorted(set(self.dtypes) - set(BY_NAME))
        if unknown:
            raise ValueError(
                f"FallbackKernel.dtypes of {self.op!r} has unknown names {unknown}; "
                f"known are {', '.join(BY_NAME)}"
            )
        if not isinstance(self.provider, BuiltinRuntime | SharedLibrary | LinkedObjects):
            raise TypeError(
                "FallbackKernel.provider must be BuiltinRuntime, SharedLibrary or LinkedObjects, "
                f"found {_type_name(self.provider)}"
            )
        if self.reference is not None:
            _require_callable(self, "reference")


@dataclass(frozen=True)
class GraphPass:
    """A pass over the exported program of one partition, run before Inductor sees it.

    Attributes:
        name: unique among all passes of a device, e.g. ``acme.fuse_rms_norm``.
        run: takes the program and returns a new one, or ``None`` after changing it in place or
            leaving it alone. Its tensors are the model's own: a pass makes new ones, and writes to
            none.
        before: names of passes that must run later; names that nobody provides are ignored.
        after: names of passes that must have run; names that nobody provides are ignored.
        handles: says of a node whether the pass replaces it by something that the device can run;
            such nodes are delegated without asking Inductor about them.
    """

    name: str
    run: Callable[[ExportedProgram], ExportedProgram | None]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    handles: Callable[[Node], bool] | None = None

    def __post_init__(self) -> None:
        _require_text(self, "name")
        _require_callable(self, "run")
        _require_texts(self, "before")
        _require_texts(self, "after")
        if self.handles is not None:
            _require_callable(self, "handles")
        if self.name in self.before + self.after:
            raise ValueError(f"GraphPass {self.name!r} must not be ordered against itself")


@dataclass(frozen=True)
class Target:
    """Something one can lower for, by name.

    Attributes:
        name: what a user writes as ``target=``, e.g. ``h100`` or ``x86_64-v3``.
        device: name of the device, such as ``cuda``.
        machine: ELF-style machine of the host code, e.g. ``x86_64`` or ``aarch64``.
        features: CPU flags that the code needs, e.g. ``("avx2", "fma")``.
        properties: further facts that the device's lowering reads; copied, not part of the hash.
    """

    name: str
    device: str
    machine: str
    features: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("name", "device", "machine"):
            _require_text(self, name)
        _require_texts(self, "features")
        if not isinstance(self.properties, Mapping):
            raise TypeError(
                f"Target.properties must be a mapping, found {_type_name(self.properties)}"
            )
        object.__setattr__(self, "properties", dict(self.properties))


@dataclass(frozen=True)
class ProgressEvent:
    """One step of a lowering: a stage of one partition starts, ends or fails.

    Attributes:
        stage: what is being done, e.g. ``compile``.
        status: ``start``, ``end`` or ``fail``; every start is followed by one of the others.
        device: device that is lowered for.
        method: name of the exported method.
        partition: index of the partition within the method, from 0.
        partitions: how many partitions the method has, at least 1.
        seconds: time since the start of the stage; ``None`` when it starts.
        detail: something for a person to read; may be empty.
    """

    stage: str
    status: Literal["start", "end", "fail"]
    device: str
    method: str
    partition: int
    partitions: int
    seconds: float | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        for name in ("stage", "device", "method"):
            _require_text(self, name)
        if self.status not in _STATUSES:
            raise ValueError(
                f"ProgressEvent.status must be one of {', '.join(_STATUSES)}, found {self.status!r}"
            )
        if not 0 <= self.partition < self.partitions:
            raise ValueError(
                "ProgressEvent.partition must be in [0, partitions), "
                f"found {self.partition} of {self.partitions}"
            )
        if self.seconds is not None and self.seconds < 0:
            raise ValueError(f"ProgressEvent.seconds must not be negative, found {self.seconds}")


class BlobName(str):
    """A blob's name that also says in which external data file the blob goes.

    ``aoti_blob_name`` may return it in place of a plain ``str``.

    Attributes:
        external_tag: stem of the ``.ptd`` file; ``None`` keeps the blob in the ``.pte``.
    """

    external_tag: str | None

    def __new__(cls, name: str, external_tag: str | None = None) -> BlobName:
        """Create a name with the stem of a data file, or with ``None``."""
        self = super().__new__(cls, name)
        self.external_tag = external_tag
        return self


def _path_text(value: Any) -> Any:
    return fspath(value) if isinstance(value, PathLike) else value


def _type_name(value: object) -> str:
    return type(value).__name__


def _where(owner: object, name: str) -> str:
    return f"{_type_name(owner)}.{name}"


def _require_text(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if not isinstance(value, str):
        raise TypeError(f"{_where(owner, name)} must be a str, found {_type_name(value)}")
    if not value:
        raise ValueError(f"{_where(owner, name)} must not be empty")


def _require_tuple(owner: object, name: str, kind: type) -> None:
    value = getattr(owner, name)
    if not isinstance(value, tuple):
        raise TypeError(
            f"{_where(owner, name)} must be a tuple of {kind.__name__}, found {_type_name(value)}"
        )
    for item in value:
        if not isinstance(item, kind):
            raise TypeError(
                f"{_where(owner, name)} must be a tuple of {kind.__name__}, "
                f"found an item of type {_type_name(item)}"
            )


def _require_texts(owner: object, name: str) -> None:
    _require_tuple(owner, name, str)
    if "" in getattr(owner, name):
        raise ValueError(f"{_where(owner, name)} must not hold an empty str")


def _require_callable(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if not callable(value):
        raise TypeError(f"{_where(owner, name)} must be callable, found {_type_name(value)}")
