"""Where a program file has its payloads and blobs, found without reading more than is needed."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aoti_plugins import payload as payloads
from aoti_plugins.errors import ProgramError
from aoti_plugins.payload import pte_header
from aoti_plugins.payload.header import MAGIC

T = TypeVar("T")
Blob = tuple[str, memoryview]
_Wanted = tuple[str, str, int, bytes]

_HEAD_NBYTES = 64


@dataclass(frozen=True)
class PayloadPlace:
    """A payload of ours in a program.

    Attributes:
        where: the delegates that have it, for instance ``"forward[0]"``.
        offsets: of its bytes in the file.
        data: the bytes.
    """

    where: tuple[str, ...]
    offsets: tuple[int, ...]
    data: bytes


class ProgramFile:
    """A ``.pte`` file with its ``.ptd`` files, mapped into memory.

    Attributes:
        payloads: ours, each once.
        others: delegates of other backends, for instance ``"forward[1] (XnnpackBackend)"``.

    Args:
        path: of the program.
        data_files: of the data files.

    Raises:
        ProgramError: one is missing or damaged, or no program or no data file.
    """

    def __init__(self, path: Path, data_files: Sequence[Path] = ()) -> None:
        self._data = _mapped(path)
        problem = pte_header.problem(self._data[: pte_header.HEAD_NBYTES], len(self._data))
        if problem:
            raise ProgramError(f"{str(path)!r} {problem}")
        found = parsed(path, "an ExecuTorch program", self._parse)
        for one in data_files:
            found += parsed(one, "a data file of ExecuTorch", _named_data_of, one)
        self._blobs: dict[str, list[memoryview]] = {}  # which of two the runtime takes is its own
        for key, blob in found:
            self._blobs.setdefault(key, []).append(blob)

    def problems(self, payload: payloads.Payload) -> list[str]:
        """What of a payload's code and weights is missing, or is not what its digests say."""
        if payload.version == 1:
            return ["the payload is of version 1, which has no digests: lower the model again"]
        wanted = [
            ("code", one.artifact_key, one.artifact_nbytes, one.artifact_sha256)
            for one in payload.targets
        ]
        for one in payload.storages:
            table_key = payload.rank_table_key(one)
            if table_key is None:
                wanted.append(("weights", one.key, one.nbytes, one.sha256))
            else:
                wanted += self._of_ranks(one, table_key)
        return [problem for one in wanted if one[2] for problem in self._problems_of(*one)]

    def _of_ranks(self, storage: payloads.StorageRef, table_key: str) -> list[_Wanted]:
        """What is to be compared of a storage that each rank has its own of.

        The digests of all ranks, and the bytes of those ranks whose files were given.
        """
        table = bytes(next(iter(self._blobs.get(table_key, ())), b""))
        found: list[_Wanted] = [("digests of ranks", table_key, len(table) or 1, storage.sha256)]
        digests = [
            table[start : start + payloads.DIGEST_NBYTES]
            for start in range(0, len(table), payloads.DIGEST_NBYTES)
        ]
        own = [(f"{storage.key}{rank}", digest) for rank, digest in enumerate(digests)]
        given = [(key, digest) for key, digest in own if key in self._blobs] or own[:1]
        return found + [("weights", key, storage.nbytes, digest) for key, digest in given]

    def _parse(self) -> list[Blob]:
        from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
        from executorch.exir._serialize._program import _get_extended_header

        header = _get_extended_header(self._data[:_HEAD_NBYTES])
        self._end = header.program_size if header else len(self._data)
        self._base = header.segment_base_offset if header else 0
        self._program: Any = _flatbuffer_to_program(self._data[: self._end])
        self._find_payloads()
        named = self._program.named_data or ()
        return [(one.key, self._segment(one.segment_index)[1]) for one in named]

    def _find_payloads(self) -> None:
        where: dict[bytes, list[str]] = {}
        offsets: dict[bytes, set[int]] = {}
        others = []
        for plan in self._program.execution_plan:
            for number, delegate in enumerate(plan.delegates):
                name = f"{plan.name}[{number}]"
                data, found_at = self._processed(delegate.processed)
                if data.startswith(MAGIC):
                    where.setdefault(data, []).append(name)
                    offsets.setdefault(data, set()).update(found_at)
                else:
                    others.append(f"{name} ({delegate.id})")
        self.payloads = tuple(
            PayloadPlace(tuple(where[data]), tuple(sorted(offsets[data])), data) for data in where
        )
        self.others = tuple(others)

    def _processed(self, reference: Any) -> tuple[bytes, list[int]]:
        """The bytes of a delegate and where they are: in a segment, or in the flatbuffer."""
        from executorch.exir.schema import DataLocation

        if reference.location == DataLocation.SEGMENT:
            start, view = self._segment(reference.index)
            return bytes(view), [start]
        data = bytes(self._program.backend_delegate_data[reference.index].data)
        return data, list(self._places_of(data)) if data.startswith(MAGIC) else []

    def _places_of(self, data: bytes) -> Iterator[int]:
        at = self._data.find(data, 0, self._end)
        while at >= 0:
            yield at
            at = self._data.find(data, at + 1, self._end)

    def _segment(self, index: int) -> tuple[int, memoryview]:
        segment = self._program.segments[index]
        return _part(self._data, self._base + segment.offset, segment.size)

    def _problems_of(self, what: str, key: str, nbytes: int, sha256: bytes) -> Iterator[str]:
        blobs = self._blobs.get(key)
        if not blobs:
            yield f"{what} {key!r}: neither in the program nor in a data file that was given"
        for blob in blobs or ():
            digest = hashlib.sha256(blob[:nbytes])
            if len(blob) < nbytes or (what == "code" and len(blob) != nbytes):
                yield f"{what} {key!r}: {len(blob)} bytes, the payload says {nbytes}"
            elif digest.digest() != sha256:
                found = digest.hexdigest()
                yield f"{what} {key!r}: SHA-256 is {found}, the payload says {sha256.hex()}"


def _named_data_of(path: Path) -> list[Blob]:
    from executorch.extension.flat_tensor.serialize.serialize import (
        FlatTensorHeader,
        _deserialize_to_flat_tensor,
    )

    data = _mapped(path)
    header = FlatTensorHeader.from_bytes(data[8:_HEAD_NBYTES])
    if not header.is_valid():
        raise ValueError("its header is not one of a data file")
    parsed = _deserialize_to_flat_tensor(data[: header.flatbuffer_offset + header.flatbuffer_size])
    segments = [
        _part(data, header.segment_base_offset + one.offset, one.size)[1] for one in parsed.segments
    ]
    return [(one.key, segments[one.segment_index]) for one in parsed.named_data]


def _part(data: mmap.mmap, start: int, nbytes: int) -> tuple[int, memoryview]:
    if start < 0 or nbytes < 0 or start + nbytes > len(data):
        raise ValueError(f"bytes {start} to {start + nbytes} go beyond the end of the file")
    return start, memoryview(data)[start : start + nbytes]


def parsed(path: Path, kind: str, read: Callable[..., T], *arguments: Any) -> T:
    """What one of ExecuTorch's readers makes of a file.

    Raises:
        ProgramError: it cannot read it.
    """
    try:
        return read(*arguments)
    except ProgramError:
        raise
    except Exception as error:  # whatever ExecuTorch's readers make of damaged bytes
        raise ProgramError(
            f"{str(path)!r} cannot be read as {kind}: {type(error).__name__}: {error}. "
            "It is damaged; copy it again or lower the model again."
        ) from error


def _mapped(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ProgramError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # mapping nothing
        raise ProgramError(f"{str(path)!r} is empty") from error
