"""Run one kernel by hand: ``python run.py FILE KERNEL ARGUMENT... --threads 64 [--group 32]``.

An argument is ``float:4`` (zeros), ``float:0..8`` (counted up) or ``int=3`` (one value), for the
types float, char, uchar, short, ushort, int, uint, long and ulong. Printed are the arguments
afterwards. All checks are on.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from array import array
from pathlib import Path
from typing import Any, Final

from compile import CompileError, compile_metal
from metal_library import DispatchError, Library, schedule

_CODES: Final = {
    "float": "f", "char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I",
    "long": "q", "ulong": "Q",
}  # fmt: skip


class _Memory(array):
    """An array that a kernel can be given."""

    def is_contiguous(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.buffer_info()[0]

    def numel(self) -> int:
        return len(self)

    def element_size(self) -> int:
        return self.itemsize


def argument(text: str) -> _Memory:
    """Memory as the command line describes it."""
    match = re.fullmatch(r"(\w+)(?::(\d+)(?:\.\.(\d+))?|=(.+))", text)
    if match is None or match[1] not in _CODES:
        raise argparse.ArgumentTypeError(f"'{text}' is not as in float:4, float:0..8 or int=3")
    code, first, last, value = _CODES[match[1]], match[2], match[3], match[4]
    if value is not None:
        return _Memory(code, [float(value) if code == "f" else int(value)])
    if last is not None:
        return _Memory(code, range(int(first), int(last)))
    return _Memory(code, [0] * int(first))


def sizes(text: str) -> list[int]:
    """``64`` or ``8,4,2``."""
    return [int(number) for number in text.split(",")]


def main(given: list[str] | None = None) -> int:
    """Compile, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("kernel")
    parser.add_argument("arguments", nargs="*", type=argument)
    parser.add_argument("--threads", type=sizes, required=True)
    parser.add_argument("--group", type=sizes)
    parser.add_argument("--group-memory", type=sizes, default=[])
    parser.add_argument("--schedule", default="forward")
    options = parser.parse_args(given)
    os.environ["METAL_HOST_CHECK"] = "1"
    try:
        with tempfile.TemporaryDirectory() as folder, schedule(options.schedule):
            path = Path(folder) / "library.so"
            compile_metal(options.file.read_text(), path)
            kernel = Library(path)[options.kernel]
            kernel(options.arguments, options.threads, options.group, options.group_memory)
    except (CompileError, DispatchError, KeyError) as error:
        print(error, file=sys.stderr)
        return 1
    _print(options.arguments)
    return 0


def _print(arguments: list[Any]) -> None:
    for number, memory in enumerate(arguments):
        print(f"buffer {number}:", *memory)


if __name__ == "__main__":
    sys.exit(main())
