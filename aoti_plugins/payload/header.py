"""The 32 bytes in front of every payload, and what to say when they are not there."""

from __future__ import annotations

import struct
import zlib
from enum import IntFlag

from aoti_plugins.payload.signatures import BLOCK_NBYTES
from aoti_plugins.payload.wire import DAMAGED, fail

MAGIC = b"AOTIPLUG"
VERSION = 3
"""The version that is written."""

FIRST_VERSION = 1
"""The oldest version that is read: no digests of SHA-256, no room for signatures."""

KERNELS_VERSION = 3
"""The first that says what kernels come from."""

HEADER_NBYTES = 32


class PayloadFlag(IntFlag):
    """How the program is run.

    ``TF32_MATMUL`` and ``TF32_CONVOLUTION``: the exporting process allowed to round float32 to TF32
    there. ``CUDA_GRAPHS``: calls become CUDA graphs. ``RANKS``: it is for several ranks, and a
    storage whose key ends with ``@rank`` is another one on each.
    """

    NONE = 0
    TF32_MATMUL = 1
    TF32_CONVOLUTION = 2
    CUDA_GRAPHS = 4
    RANKS = 8


_KNOWN_FLAGS = sum(PayloadFlag)
_NOT_OURS = "This is not a payload of aoti_plugins: another backend may have lowered this delegate."

_FOREIGN = (
    (b"\x7fELF", "an ELF shared object"),
    (b"PK\x03\x04", "a zip archive, such as an AOTInductor package (.pt2)"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O library"),
    (b"MZ", "a Windows library"),
    (b"{", "JSON text"),
)
# Tags at byte 4, where flatbuffers and their headers keep them.
_FOREIGN_TAGS = {
    b"XH00": "a payload of the XNNPACK delegate",
    b"XN00": "a payload of the XNNPACK delegate",
    b"XN01": "a payload of the XNNPACK delegate",
    b"VH00": "a payload of the Vulkan delegate",
    b"VK00": "a payload of the Vulkan delegate",
}


def check_header(data: bytes) -> tuple[int, PayloadFlag, int]:
    """Refuse what is not a whole, undamaged payload of a version that is known.

    Returns:
        The version, the flags, and where the body ends.

    Raises:
        PayloadError: names the field, its byte offset, what was found and what was expected.
    """
    _check_magic(data)
    if len(data) < HEADER_NBYTES:
        fail(
            "header",
            len(data),
            f"the data ends here, a header takes {HEADER_NBYTES} bytes",
        )
    version, flags, total, body_crc, header_crc = struct.unpack_from("<IIQII", data, 8)
    _check_crc("header crc32", 28, header_crc, data[:28])
    if not FIRST_VERSION <= version <= VERSION:
        found = f"found {version}, this reader knows {FIRST_VERSION} to {VERSION}"
        fail("version", 8, found, _version_advice(version))
    if flags & ~_KNOWN_FLAGS:
        fail(
            "flags",
            12,
            f"found 0x{flags:08x}, this reader knows 0x{_KNOWN_FLAGS:08x}",
            "The program needs a newer reader: pip install --upgrade aoti_plugins.",
        )
    end_nbytes = 0 if version == FIRST_VERSION else BLOCK_NBYTES
    _check_total(total, len(data), HEADER_NBYTES + end_nbytes)
    _check_crc("body crc32", 24, body_crc, data[HEADER_NBYTES : total - end_nbytes])
    return version, PayloadFlag(flags), total - end_nbytes


def _check_magic(data: bytes) -> None:
    if not data:
        fail(
            "magic",
            0,
            f"there is no data, expected {MAGIC!r}",
            _NOT_OURS,
        )
    found = data[: len(MAGIC)]
    if found == MAGIC[: len(data)]:
        return
    looks_like = next((what for start, what in _FOREIGN if data.startswith(start)), None)
    if data[4:6] == b"ET":
        looks_like = "a whole ExecuTorch program (.pte)"
    looks_like = _FOREIGN_TAGS.get(data[4:8], looks_like)
    if b"_so_blob\n" in data[:256]:
        looks_like = "a payload of ExecuTorch's own AOTInductor backends"
    guess = f" (this looks like {looks_like})" if looks_like else ""
    fail(
        "magic",
        0,
        f"found {found!r}{guess}, expected {MAGIC!r}",
        _NOT_OURS,
    )


def _check_crc(name: str, offset: int, stored: int, data: bytes) -> None:
    computed = zlib.crc32(data)
    if stored != computed:
        fail(name, offset, f"found 0x{stored:08x}, the bytes give 0x{computed:08x}", DAMAGED)


def _version_advice(version: int) -> str:
    if version > VERSION:
        return (
            "A newer aoti_plugins wrote the program: pip install --upgrade aoti_plugins, "
            "or lower the model with this one."
        )
    return "No release wrote such a version; lower the model again."


def _check_total(total: int, found: int, least: int) -> None:
    if total < least:
        fail("total_nbytes", 16, f"the header announces {total} bytes, expected at least {least}")
    if found < total:
        fail(
            "total_nbytes",
            16,
            f"the header announces {total} bytes, {found} are there: the payload is truncated",
            "Copy the program again, or lower the model again.",
        )
    if found > total:
        fail(
            "total_nbytes",
            16,
            f"the header announces {total} bytes, {found} are there: "
            f"{found - total} trailing bytes",
        )
