"""Macs one can lower for.

A program holds host code for one kind of Mac, and Metal source that every GPU's own compiler
translates where it runs; so targets are told apart by the host alone. Metal 3.1, whose ``bfloat``
the generated kernels use, came with macOS 14 (Metal Shading Language Specification, 3.1, chapter
2.1).
"""

from __future__ import annotations

from aoti_plugins.errors import LoweringError
from aoti_plugins.types import Target

OLDEST_MACOS = "14.0"
DEFAULT_TARGET = "macos-arm64"  # a Mac with Apple silicon

# Of an M1's smaller form; a reduction is split for at least that many.
DEFAULT_GPU_CORES = 8


def _mac(name: str, machine: str, zig_target: str) -> Target:
    return Target(
        name=name,
        device="mps",
        machine=machine,
        properties={"zig_target": zig_target, "cxx_flags": ()},
    )


TARGETS = (
    _mac(DEFAULT_TARGET, "arm64-apple-macos", "aarch64-macos"),
    _mac("macos-x86_64", "x86_64-apple-macos", "x86_64-macos"),
)


def minimum_macos(asked: str) -> str:
    """The oldest macOS to make code for, such as ``"14.0"``.

    Args:
        asked: what the user wants; empty: the oldest that can be.

    Raises:
        LoweringError: it is older than that.
    """
    version = asked or OLDEST_MACOS
    if "." not in version:
        version += ".0"
    if _numbers(version) < _numbers(OLDEST_MACOS):
        raise LoweringError(
            f"minimum_macos={asked!r}: programs need macOS {OLDEST_MACOS} or later, whose Metal "
            "has bfloat"
        )
    return version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
