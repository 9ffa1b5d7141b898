"""The first bytes of a ``.pte`` file, as far as they tell whether the file is whole.

ExecuTorch's layout: a flatbuffer with its identifier at byte 4, and from byte 8 an extended header
(``eh00``, u32 own size, u64 size of the flatbuffer, u64 offset and u64 size of the segments).
"""

from __future__ import annotations

import struct

HEAD_NBYTES = 40
"""How many bytes ``problem`` looks at."""

_IDENTIFIER = b"ET"
_DATA_IDENTIFIER = b"FT01"
_ZIP = b"PK\x03\x04"
_AGAIN = "Copy it again or lower the model again."


def problem(head: bytes, nbytes: int) -> str | None:
    """Say what is wrong with a program file; ``None`` if nothing is, as far as the header tells.

    Args:
        head: the first ``HEAD_NBYTES`` of the file, or all of it.
        nbytes: size of the whole file.
    """
    if not nbytes:
        return f"is empty. {_AGAIN}"
    if nbytes < 8:
        return f"is truncated: found {nbytes} bytes, which is too few for any program. {_AGAIN}"
    if head.startswith(_ZIP):
        return (
            "is a zip archive, such as an exported model (.pt2), and no program: lower it first, "
            "with 'aoti-plugins lower'"
        )
    if head[4:8] == _DATA_IDENTIFIER:
        return (
            "is a data file (.ptd), and no program: give it beside the program that it belongs to"
        )
    if head[4:6] != _IDENTIFIER:
        return (
            f"is no ExecuTorch program: found {head[4:8]!r} at byte 4, expected an identifier "
            "such as b'ET12'"
        )
    if head[8:12] != b"eh00" or len(head) < HEAD_NBYTES:
        return None
    header_nbytes, program_nbytes, base = struct.unpack_from("<IQQ", head, 12)
    segments_nbytes = struct.unpack_from("<Q", head, 32)[0] if header_nbytes >= 32 else 0
    expected = max(program_nbytes, base + segments_nbytes)
    if nbytes < expected:
        return f"is truncated: found {nbytes} bytes, expected {expected}. {_AGAIN}"
    return None
