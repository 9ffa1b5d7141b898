"""The Metal stand-in from Python: build it, send messages to its objects."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_HERE: Final = Path(__file__).resolve().parent


class Size(ctypes.Structure):
    """MTLSize."""

    _fields_ = (("width", ctypes.c_ulong), ("height", ctypes.c_ulong), ("depth", ctypes.c_ulong))


def build_stand_in(output: Path, *flags: str) -> Path:
    """Compile ``libmetal_stand_in.so`` with g++; CMake does it where there is a build folder."""
    sources = sorted(map(str, (_HERE / "stand_in").glob("*.cpp")))
    command = ["g++", "-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden", *flags]
    subprocess.run([*command, *sources, "-ldl", "-o", str(output)], check=True)
    return output


class Objective:
    """The Objective-C runtime of a library: the stand-in's, or a real one."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))
        for name in ("objc_getClass", "sel_registerName", "objc_autoreleasePoolPush"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.MTLCreateSystemDefaultDevice.restype = ctypes.c_void_p
        self.library.metal_stand_in_last_error.restype = ctypes.c_char_p
        self.library.metal_stand_in_allocated_nbytes.restype = ctypes.c_size_t
        for name in ("buffer", "library", "pipeline", "command_buffer"):
            getattr(self.library, f"metal_stand_in_fail_{name}").argtypes = [ctypes.c_long]
        self.library.metal_stand_in_limit_memory.argtypes = [ctypes.c_size_t]
        self.library.metal_stand_in_limit_threads.argtypes = [ctypes.c_size_t]

    def send(
        self, target: Any, selector: str, *arguments: Any, result: Any = ctypes.c_void_p
    ) -> Any:
        """Send a message: ints go as 64-bit integers, ctypes values as what they are."""
        given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        types = [ctypes.c_void_p, ctypes.c_void_p, *map(type, given)]
        function = ctypes.CFUNCTYPE(result, *types)(("objc_msgSend", self.library))
        return function(target, self.selector(selector), *given)

    def selector(self, name: str) -> int:
        """The selector of a name."""
        return self.library.sel_registerName(name.encode())

    def named_class(self, name: str) -> int:
        """A class by its name."""
        return self.library.objc_getClass(name.encode())

    def device(self) -> int:
        """The device; the caller owns a reference that need not be given back."""
        return self.library.MTLCreateSystemDefaultDevice()

    def string(self, text: str) -> int:
        """An autoreleased NSString."""
        return self.send(
            self.named_class("NSString"), "stringWithUTF8String:", ctypes.c_char_p(text.encode())
        )

    def text(self, string: int) -> str:
        """What an NSString says."""
        return self.send(string, "UTF8String", result=ctypes.c_char_p).decode()

    def description(self, error: int) -> str:
        """What an NSError says."""
        return self.text(self.send(error, "localizedDescription"))

    @contextmanager
    def pool(self) -> Iterator[None]:
        """An autorelease pool."""
        pool = ctypes.c_void_p(self.library.objc_autoreleasePoolPush())
        try:
            yield
        finally:
            self.library.objc_autoreleasePoolPop(pool)


def size(numbers: Sequence[int]) -> Size:
    """One to three numbers as an MTLSize."""
    return Size(*[*numbers, 1, 1][:3])
