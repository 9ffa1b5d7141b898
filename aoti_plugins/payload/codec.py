"""From a payload's contents to bytes, and back.

``docs/payload.md`` describes every byte. Written here, read here and by
``native/src/delegate/payload.cpp``; both readers are tested on ``tests/data/golden_payload.bin``.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable
from typing import TypeVar

from aoti_plugins.dtypes import BY_CODE, NO_DTYPE
from aoti_plugins.errors import PayloadError
from aoti_plugins.payload.contents import (
    DIGEST_NBYTES,
    ArtifactKind,
    ConstantKind,
    ConstantRef,
    KernelRef,
    LibraryRef,
    Payload,
    StorageRef,
    TargetArtifact,
    ValueKind,
    ValueSpec,
)
from aoti_plugins.payload.header import (
    FIRST_VERSION,
    HEADER_NBYTES,
    KERNELS_VERSION,
    MAGIC,
    VERSION,
    PayloadFlag,
    check_header,
)
from aoti_plugins.payload.signatures import PayloadSignature, block, read_block
from aoti_plugins.payload.wire import Reader, Writer, fail

T = TypeVar("T")


def encode(payload: Payload) -> bytes:
    """Return the bytes of a payload, of the version that is written today.

    Raises:
        PayloadError: a field does not fit its type, or breaks a rule that a reader checks.
    """
    body = _Body().write(payload)
    end = block(payload.signatures)
    total = HEADER_NBYTES + len(body) + len(end)
    start = MAGIC + struct.pack("<IIQI", VERSION, payload.flags, total, zlib.crc32(body))
    encoded = start + struct.pack("<I", zlib.crc32(start)) + body + end
    if decode(encoded) != payload:
        raise PayloadError(
            "payload: reading back what was written gives something else; "
            "use tuples for every list and the enums of aoti_plugins.payload for every kind"
        )
    return encoded


def decode(data: bytes) -> Payload:
    """Read a payload.

    Raises:
        PayloadError: the bytes are not a payload, are damaged, or are of a kind this version does
            not know. The message names the field, its byte offset, what was found and what was
            expected.
    """
    data = bytes(data)
    version, flags, end = check_header(data)
    parser = _Parser(data[:end], version)
    return parser.payload(flags, () if end == len(data) else read_block(data))


class _Body(Writer):
    """Writes the body; the order of the calls is the format."""

    def write(self, payload: Payload) -> bytes:
        self.string(payload.device, "device")
        self.string(payload.method, "method")
        self.items(payload.built_with, "built_with", self._named_version)
        self.items(payload.targets, "targets", self._target)
        self.items(payload.storages, "storages", self._storage)
        self.items(payload.constants, "constants", self._constant)
        self.items(payload.inputs, "inputs", self._value)
        self.items(payload.outputs, "outputs", self._value)
        return bytes(self.data)

    def digest(self, value: bytes, where: str) -> None:
        """Append a digest of SHA-256."""
        if not isinstance(value, bytes) or len(value) != DIGEST_NBYTES:
            raise PayloadError(f"payload: {where} is {value!r}, expected {DIGEST_NBYTES} bytes")
        self.data += value

    def _named_version(self, item: tuple[str, str], where: str) -> None:
        name, version = item
        self.string(name, f"{where}.name")
        self.string(version, f"{where}.version")

    def _target(self, target: TargetArtifact, where: str) -> None:
        self.string(target.name, f"{where}.name")
        self.string(target.machine, f"{where}.machine")
        self.items(target.features, f"{where}.features", self.string)
        self.number("I", target.artifact_kind, f"{where}.artifact_kind")
        self.string(target.artifact_key, f"{where}.artifact_key")
        self.number("Q", target.artifact_nbytes, f"{where}.artifact_nbytes")
        self.digest(target.artifact_sha256, f"{where}.artifact_sha256")
        self.items(target.libraries, f"{where}.libraries", self._library)
        self.items(target.symbols, f"{where}.symbols", self.string)
        self.items(target.kernels, f"{where}.kernels", self._kernel)

    def _kernel(self, kernel: KernelRef, where: str) -> None:
        self.string(kernel.name, f"{where}.name")
        self.items(kernel.ops, f"{where}.ops", self.string)
        self.items(kernel.modules, f"{where}.modules", self.string)
        self.items(kernel.lines, f"{where}.lines", self.string)
        self.number("Q", kernel.nbytes_read, f"{where}.nbytes_read")
        self.number("Q", kernel.nbytes_written, f"{where}.nbytes_written")
        self.number("Q", kernel.flops, f"{where}.flops")

    def _library(self, library: LibraryRef, where: str) -> None:
        self.string(library.soname, f"{where}.soname")
        self.string(library.version, f"{where}.version")
        self.string(library.origin, f"{where}.origin")

    def _storage(self, storage: StorageRef, where: str) -> None:
        self.string(storage.key, f"{where}.key")
        self.number("Q", storage.nbytes, f"{where}.nbytes")
        self.digest(storage.sha256, f"{where}.sha256")

    def _constant(self, constant: ConstantRef, where: str) -> None:
        self.string(constant.fqn, f"{where}.fqn")
        self.number("I", constant.storage, f"{where}.storage")
        self.number("I", constant.dtype, f"{where}.dtype")
        self.number("I", constant.kind, f"{where}.kind")
        self.items(constant.sizes, f"{where}.sizes", self._i64)
        self.items(constant.strides, f"{where}.strides", self._i64)
        self.number("q", constant.storage_offset, f"{where}.storage_offset")

    def _value(self, value: ValueSpec, where: str) -> None:
        self.number("I", value.kind, f"{where}.kind")
        self.number("I", value.dtype, f"{where}.dtype")
        self.items(value.dims, f"{where}.dims", self._dim)
        self.items(value.dim_order, f"{where}.dim_order", self._u32)

    def _dim(self, dim: tuple[int, int], where: str) -> None:
        low, high = dim
        self.number("q", low, f"{where}.min")
        self.number("q", high, f"{where}.max")

    def _i64(self, value: int, where: str) -> None:
        self.number("q", value, where)

    def _u32(self, value: int, where: str) -> None:
        self.number("I", value, where)


class _Parser:
    """Reads the body; checks every rule where the field is read, so that the offset is at hand."""

    def __init__(self, data: bytes, version: int) -> None:
        self._in = Reader(data, HEADER_NBYTES)
        self._version = version
        self._digest_nbytes = 0 if version == FIRST_VERSION else DIGEST_NBYTES
        self._storages: tuple[StorageRef, ...] = ()

    def payload(self, flags: PayloadFlag, signatures: tuple[PayloadSignature, ...]) -> Payload:
        device = self._in.string("device")
        method = self._in.string("method")
        built_with = self._in.items("built_with", 8, self._named_version)
        targets = self._targets()
        self._storages = self._in.items("storages", 12 + self._digest_nbytes, self._storage)
        constants = self._distinct("constants", 32, self._constant, "fqn")
        inputs = self._in.items("inputs", 16, self._value)
        outputs = self._in.items("outputs", 16, self._value)
        if self._in.remaining:
            fail(
                "body",
                self._in.offset,
                f"{self._in.remaining} bytes follow the last field, expected none",
            )
        return Payload(
            device,
            method,
            built_with,
            targets,
            self._storages,
            constants,
            inputs,
            outputs,
            flags,
            signatures,
            self._version,
        )

    def _named_version(self, where: str) -> tuple[str, str]:
        return self._in.string(f"{where}.name"), self._in.string(f"{where}.version")

    def _targets(self) -> tuple[TargetArtifact, ...]:
        start = self._in.offset
        least = 36 + (self._digest_nbytes or 4) + (4 if self._version >= KERNELS_VERSION else 0)
        targets = self._distinct("targets", least, self._target, "name", "target ")
        if not targets:
            fail("targets", start, "the list is empty, expected at least one target")
        return targets

    def _distinct(
        self, where: str, least: int, read: Callable[[str], T], name: str, what: str = ""
    ) -> tuple[T, ...]:
        """A list of items of which no two have the same name, an attribute."""
        seen: set[str] = set()

        def checked(where: str) -> T:
            at = self._in.offset
            item = read(where)
            found = getattr(item, name)
            if found in seen:
                fail(f"{where}.{name}", at, f"{what}{found!r} is listed twice, expected once")
            seen.add(found)
            return item

        return self._in.items(where, least, checked)

    def _target(self, where: str) -> TargetArtifact:
        old = self._version == FIRST_VERSION
        return TargetArtifact(
            name=self._in.string(f"{where}.name"),
            machine=self._in.string(f"{where}.machine"),
            features=self._in.items(f"{where}.features", 4, self._in.string),
            artifact_kind=self._in.choice(f"{where}.artifact_kind", ArtifactKind),
            artifact_key=self._in.string(f"{where}.artifact_key"),
            artifact_nbytes=self._in.number("Q", f"{where}.artifact_nbytes"),
            artifact_crc32=self._in.number("I", f"{where}.artifact_crc32") if old else 0,
            artifact_sha256=self._in.raw(self._digest_nbytes, f"{where}.artifact_sha256"),
            libraries=self._in.items(f"{where}.libraries", 12, self._library),
            symbols=self._symbols(f"{where}.symbols"),
            kernels=()
            if self._version < KERNELS_VERSION
            else self._distinct(f"{where}.kernels", 40, self._kernel, "name"),
        )

    def _kernel(self, where: str) -> KernelRef:
        return KernelRef(
            name=self._in.string(f"{where}.name"),
            ops=self._in.items(f"{where}.ops", 4, self._in.string),
            modules=self._in.items(f"{where}.modules", 4, self._in.string),
            lines=self._in.items(f"{where}.lines", 4, self._in.string),
            nbytes_read=self._in.number("Q", f"{where}.nbytes_read"),
            nbytes_written=self._in.number("Q", f"{where}.nbytes_written"),
            flops=self._in.number("Q", f"{where}.flops"),
        )

    def _library(self, where: str) -> LibraryRef:
        return LibraryRef(
            soname=self._in.string(f"{where}.soname"),
            version=self._in.string(f"{where}.version"),
            origin=self._in.string(f"{where}.origin"),
        )

    def _symbols(self, where: str) -> tuple[str, ...]:
        start = self._in.offset
        symbols = self._in.items(where, 4, self._in.string)
        for before, after in itertools.pairwise(symbols):
            if before >= after:
                fail(
                    where,
                    start,
                    f"{after!r} follows {before!r}, expected sorted names without repeats",
                )
        return symbols

    def _storage(self, where: str) -> StorageRef:
        return StorageRef(
            self._in.string(f"{where}.key"),
            self._in.number("Q", f"{where}.nbytes"),
            self._in.raw(self._digest_nbytes, f"{where}.sha256"),
        )

    def _constant(self, where: str) -> ConstantRef:
        start = self._in.offset
        fqn = self._in.string(f"{where}.fqn")
        storage = self._storage_index(f"{where}.storage")
        dtype = self._dtype(f"{where}.dtype")
        kind = self._in.choice(f"{where}.kind", ConstantKind)
        sizes = self._in.items(f"{where}.sizes", 8, self._count)
        at_strides = self._in.offset
        strides = self._in.items(f"{where}.strides", 8, self._count)
        if len(strides) != len(sizes):
            fail(
                f"{where}.strides",
                at_strides,
                f"{len(strides)} strides for {len(sizes)} sizes, expected as many",
            )
        offset = self._count(f"{where}.storage_offset")
        constant = ConstantRef(fqn, storage, dtype, kind, sizes, strides, offset)
        self._check_extent(constant, where, start)
        return constant

    def _storage_index(self, where: str) -> int:
        start = self._in.offset
        index = self._in.number("I", where)
        if index >= len(self._storages):
            fail(where, start, f"index {index} is out of range, {len(self._storages)} storages")
        return index

    def _dtype(self, where: str) -> int:
        start = self._in.offset
        code = self._in.number("I", where)
        if code not in BY_CODE:
            fail(where, start, f"dtype code {code} is not known")
        return code

    def _count(self, where: str) -> int:
        start = self._in.offset
        value = self._in.number("q", where)
        if value < 0:
            fail(where, start, f"{value} is negative, expected at least 0")
        return value

    def _check_extent(self, constant: ConstantRef, where: str, start: int) -> None:
        reach = constant.storage_offset
        if 0 not in constant.sizes:
            steps = zip(constant.sizes, constant.strides, strict=True)
            reach += 1 + sum((size - 1) * stride for size, stride in steps)
        needed = reach * BY_CODE[constant.dtype].nbytes
        available = self._storages[constant.storage].nbytes
        if needed > available:
            fail(
                where,
                start,
                f"{constant.fqn!r} reaches to byte {needed} of storage {constant.storage}, "
                f"which has {available} bytes",
            )

    def _value(self, where: str) -> ValueSpec:
        start = self._in.offset
        kind = self._in.choice(f"{where}.kind", ValueKind)
        at_dtype = self._in.offset
        dtype = self._in.number("I", f"{where}.dtype")
        dims = self._in.items(f"{where}.dims", 16, self._dim)
        at_order = self._in.offset
        dim_order = self._in.items(f"{where}.dim_order", 4, self._u32)
        if kind is not ValueKind.TENSOR:
            if dtype != NO_DTYPE or dims or dim_order:
                fail(
                    where,
                    start,
                    f"a value of kind {kind.name.lower()} has dtype {dtype} and {len(dims)} dims, "
                    f"expected dtype {NO_DTYPE} and none",
                )
        elif dtype not in BY_CODE:
            fail(f"{where}.dtype", at_dtype, f"dtype code {dtype} is not known")
        elif sorted(dim_order) != list(range(len(dims))):
            fail(
                f"{where}.dim_order",
                at_order,
                f"{list(dim_order)} is not a permutation of the {len(dims)} dims",
            )
        return ValueSpec(kind, dtype, dims, dim_order)

    def _dim(self, where: str) -> tuple[int, int]:
        start = self._in.offset
        low = self._count(f"{where}.min")
        high = self._in.number("q", f"{where}.max")
        if low > high:
            fail(where, start, f"min {low} is above max {high}")
        return low, high

    def _u32(self, where: str) -> int:
        return self._in.number("I", where)
