"""Little-endian writing and bounds-checked reading, shared by the parts of a payload."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from aoti_plugins.errors import PayloadError

T = TypeVar("T")

DAMAGED = "The program is damaged or was not written by aoti_plugins; lower the model again."

_STRUCTS = {kind: struct.Struct("<" + kind) for kind in "IQq"}
_NAMES = {"I": "u32", "Q": "u64", "q": "i64"}


def fail(where: str, offset: int, problem: str, advice: str = DAMAGED) -> NoReturn:
    """Raise the error for one malformation of a payload.

    Args:
        where: path of the field, for example ``constants[3].storage``.
        offset: byte offset of that field in the payload.
        problem: what was found against what was expected.
        advice: what the reader of the message should do.
    """
    raise PayloadError(f"payload: {where} at byte {offset}: {problem}. {advice}")


class Writer:
    """Appends values to a growing byte string."""

    def __init__(self) -> None:
        self.data = bytearray()

    def number(self, kind: str, value: int, where: str) -> None:
        """Append one integer; ``kind`` is ``I`` (u32), ``Q`` (u64) or ``q`` (i64)."""
        try:
            self.data += _STRUCTS[kind].pack(value)
        except struct.error as error:
            raise PayloadError(
                f"payload: {where} is {value!r}, which is not a {_NAMES[kind]}"
            ) from error

    def string(self, value: str, where: str) -> None:
        """Append one length-prefixed UTF-8 string."""
        if not isinstance(value, str):
            raise PayloadError(f"payload: {where} is {value!r}, expected a str")
        try:
            encoded = value.encode()
        except UnicodeEncodeError as error:
            raise PayloadError(f"payload: {where} is {value!r}, which has no UTF-8 form") from error
        self.number("I", len(encoded), where)
        self.data += encoded

    def items(self, values: Iterable[T], where: str, write: Callable[[T, str], None]) -> None:
        """Append a counted list; ``write`` gets each item and its path."""
        values = tuple(values)
        self.number("I", len(values), where)
        for index, value in enumerate(values):
            write(value, f"{where}[{index}]")


class Reader:
    """Reads values in sequence and refuses to leave the bytes it was given."""

    def __init__(self, data: bytes, offset: int) -> None:
        self.data = data
        self.offset = offset

    @property
    def remaining(self) -> int:
        """Bytes not yet read."""
        return len(self.data) - self.offset

    def number(self, kind: str, where: str) -> int:
        """Read one integer; ``kind`` is ``I`` (u32), ``Q`` (u64) or ``q`` (i64)."""
        layout = _STRUCTS[kind]
        if self.remaining < layout.size:
            fail(
                where,
                self.offset,
                f"the body ends here: a {_NAMES[kind]} takes {layout.size} bytes, "
                f"{self.remaining} remain",
            )
        value: int = layout.unpack_from(self.data, self.offset)[0]
        self.offset += layout.size
        return value

    def raw(self, nbytes: int, where: str) -> bytes:
        """Read so many bytes as they are."""
        if nbytes > self.remaining:
            fail(
                where,
                self.offset,
                f"the body ends here: it takes {nbytes} bytes, {self.remaining} remain",
            )
        value = self.data[self.offset : self.offset + nbytes]
        self.offset += nbytes
        return value

    def string(self, where: str) -> str:
        """Read one length-prefixed UTF-8 string without NUL."""
        start = self.offset
        nbytes = self.number("I", where)
        if nbytes > self.remaining:
            fail(where, start, f"a string of {nbytes} bytes is announced, {self.remaining} remain")
        raw = self.data[self.offset : self.offset + nbytes]
        try:
            value = raw.decode()
        except UnicodeDecodeError as error:
            fail(
                where,
                self.offset + error.start,
                f"byte 0x{raw[error.start]:02x} is not valid UTF-8 here ({error.reason})",
            )
        if "\0" in value:
            fail(where, self.offset + raw.index(0), "a string holds a NUL byte, which none may")
        self.offset += nbytes
        return value

    def items(self, where: str, min_nbytes: int, read: Callable[[str], T]) -> tuple[T, ...]:
        """Read a counted list.

        Args:
            where: path of the list.
            min_nbytes: the fewest bytes one item can take; a count that cannot fit is refused
                before anything is read.
            read: reads one item, given its path.
        """
        start = self.offset
        count = self.number("I", where)
        if count * min_nbytes > self.remaining:
            fail(
                where,
                start,
                f"{count} items are announced, which take at least {count * min_nbytes} bytes, "
                f"{self.remaining} remain",
            )
        return tuple(read(f"{where}[{index}]") for index in range(count))

    def choice(self, where: str, known: Any) -> Any:
        """Read a u32 that must be a member of the enum ``known``."""
        start = self.offset
        code = self.number("I", where)
        try:
            return known(code)
        except ValueError:
            names = ", ".join(f"{int(member)} ({member.name.lower()})" for member in known)
            fail(
                where,
                start,
                f"code {code} is not known; this reader knows {names}",
                "If the program is newer than this aoti_plugins, upgrade; "
                "otherwise lower it again.",
            )
