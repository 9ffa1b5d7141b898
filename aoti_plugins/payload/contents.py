"""What a payload says, as values: targets, storages, constants, inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from aoti_plugins.payload.header import VERSION, PayloadFlag
from aoti_plugins.payload.signatures import PayloadSignature

UNBOUNDED = 2**63 - 1
"""The ``max`` of a dimension that has no upper bound."""

RANK_KEY = "@rank"
"""Ends the key of a storage of which each rank has its own, where the flags say ``RANKS``: its
bytes are under the key and the rank's number. As native/src/delegate/rank_storages_linux.cpp."""

TABLE_KEY = "@ranks"
"""Ends the key of the digests of all ranks' bytes, of which the storage's digest is."""

DIGEST_NBYTES = 32


class ArtifactKind(IntEnum):
    """What a target's blob is."""

    SHARED_OBJECT = 1


class ConstantKind(IntEnum):
    """What a constant is in the exported program.

    Methods of a program share a ``MUTABLE_BUFFER`` by its name. An ``OWN_BUFFER`` is one that no
    other method sees.
    """

    PARAMETER = 0
    BUFFER = 1
    MUTABLE_BUFFER = 2
    TENSOR = 3
    OWN_BUFFER = 4


class ValueKind(IntEnum):
    """What one input or output of the delegate is."""

    TENSOR = 0
    INT = 1
    FLOAT = 2
    BOOL = 3
    NONE = 4


@dataclass(frozen=True)
class LibraryRef:
    """A kernel library that a blob needs beyond our runtime.

    ``origin`` is the distribution that brings it, for the message when it is missing.
    """

    soname: str
    version: str
    origin: str


@dataclass(frozen=True)
class KernelRef:
    """A kernel at one place of the code that calls it: what a profile shows beside its time.

    ``name`` is the kernel's, a colon, and the number of the place in the code. ``ops``,
    ``modules`` and ``lines`` say what of the model it does the work of: edge ops, paths of modules
    with their classes, lines of source. Bytes are those of the tensors that it reads and writes,
    ``flops`` its multiplications and additions in products and convolutions, at the sizes of the
    export; 0 where they are not known.
    """

    name: str
    ops: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    nbytes_read: int = 0
    nbytes_written: int = 0
    flops: int = 0


@dataclass(frozen=True)
class TargetArtifact:
    """The compiled code for one target: which blob, what it needs, how to tell it is whole.

    ``symbols`` are the C shims that the blob calls, under PyTorch's names, sorted.
    ``artifact_sha256`` is the digest of the blob, 32 bytes; version 1 has none, and
    ``artifact_crc32`` instead, which later ones do not have. ``kernels`` are those that the code
    marks, in its order; none before version 3.
    """

    name: str
    machine: str
    features: tuple[str, ...]
    artifact_kind: ArtifactKind
    artifact_key: str
    artifact_nbytes: int
    artifact_sha256: bytes
    libraries: tuple[LibraryRef, ...] = ()
    symbols: tuple[str, ...] = ()
    kernels: tuple[KernelRef, ...] = ()
    artifact_crc32: int = 0


@dataclass(frozen=True)
class StorageRef:
    """One weight storage: its key in the named data, its size, and its digest.

    ``sha256`` is of its first ``nbytes`` bytes, as it is stored; version 1 has none.
    """

    key: str
    nbytes: int
    sha256: bytes


@dataclass(frozen=True)
class ConstantRef:
    """One constant as a view of a storage; sizes, strides and offset count elements."""

    fqn: str
    storage: int
    dtype: int
    kind: ConstantKind
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    storage_offset: int


@dataclass(frozen=True)
class ValueSpec:
    """One input or output; ``dims`` holds (min, max) per dimension, equal where it is static."""

    kind: ValueKind
    dtype: int
    dims: tuple[tuple[int, int], ...] = ()
    dim_order: tuple[int, ...] = ()


@dataclass(frozen=True)
class Payload:
    """Everything the delegate has to know about one lowered partition, apart from the blobs.

    ``signatures`` are those that were found, not whether they are right.
    """

    device: str
    method: str
    built_with: tuple[tuple[str, str], ...]
    targets: tuple[TargetArtifact, ...]
    storages: tuple[StorageRef, ...]
    constants: tuple[ConstantRef, ...]
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    flags: PayloadFlag = PayloadFlag.NONE
    signatures: tuple[PayloadSignature, ...] = ()
    version: int = VERSION

    def rank_table_key(self, storage: StorageRef) -> str | None:
        """The key of the digests of all ranks' bytes; none of a storage that all ranks have.

        Args:
            storage: one of this payload's.
        """
        if PayloadFlag.RANKS not in self.flags or not storage.key.endswith(RANK_KEY):
            return None
        return storage.key.removesuffix(RANK_KEY) + TABLE_KEY
