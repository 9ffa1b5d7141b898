"""The C functions of the runner library, bound once. Must match ``aoti_plugins/runner.h``."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from enum import IntEnum

from aoti_plugins.errors import ProgramError, RuntimeLoadError
from aoti_plugins.native_files import RUNNER, library
from aoti_plugins.runtime._libraries import load, register_all


class Tag(IntEnum):
    """What an ``aotip_value`` holds."""

    NONE = 0
    TENSOR = 1
    INT = 2
    DOUBLE = 3
    BOOL = 4
    OTHER = 5
    STRING = 6


class Text(IntEnum):
    """What a program says of a method."""

    INPUT_SPEC = 0
    OUTPUT_SPEC = 1
    INTERFACE = 2


class Value(ctypes.Structure):
    """``aotip_value``: one input or output.

    Addresses are plain integers here: reading and writing those is cheap, pointer objects are not.
    """

    _fields_ = (
        ("tag", c_int32),
        ("dtype", c_int32),
        ("ndim", c_int32),
        ("device_type", c_int32),
        ("sizes", c_void_p),
        ("strides", c_void_p),
        ("data", c_void_p),
        ("int_value", c_int64),
        ("double_value", c_double),
        ("nbytes", c_size_t),
    )


class Option(ctypes.Structure):
    """Mirrors ``aotip_option``."""

    _fields_ = (
        ("backend", c_char_p),
        ("name", c_char_p),
        ("is_bool", c_int32),
        ("value", c_int32),
    )


class Event(ctypes.Structure):
    """Mirrors ``aotip_event``."""

    _fields_ = (
        ("name", c_char_p),
        ("in_delegate", c_int32),
        ("instruction", c_int32),
        ("begin_ns", c_int64),
        ("end_ns", c_int64),
    )


_OUT = ctypes.POINTER(c_void_p)
_OUT_SIZE = ctypes.POINTER(c_size_t)
_OUT_STRING = ctypes.POINTER(c_char_p)
_OUT_VALUE = ctypes.POINTER(Value)

# name: (result type, argument types)
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "aotip_last_error": (c_char_p, ()),
    "aotip_program_load": (
        c_int32,
        (c_char_p, ctypes.POINTER(c_char_p), c_size_t, c_int32, _OUT),
    ),
    "aotip_program_load_buffer": (c_int32, (c_char_p, c_size_t, _OUT)),
    "aotip_program_destroy": (None, (c_void_p,)),
    "aotip_program_method_count": (c_int32, (c_void_p, _OUT_SIZE)),
    "aotip_program_method_name": (c_int32, (c_void_p, c_size_t, _OUT_STRING)),
    "aotip_program_method_text": (
        c_int32,
        (c_void_p, c_char_p, c_int32, _OUT, _OUT_SIZE),
    ),
    "aotip_method_load_with": (c_int32, (c_void_p, c_char_p, c_void_p, c_size_t, _OUT)),
    "aotip_method_load_sharing": (
        c_int32,
        (c_void_p, c_char_p, c_void_p, c_size_t, c_void_p, _OUT),
    ),
    "aotip_method_load_apart": (c_int32, (c_void_p, c_char_p, c_void_p, c_size_t, _OUT)),
    "aotip_method_load_traced": (c_int32, (c_void_p, c_char_p, c_void_p, c_size_t, _OUT)),
    "aotip_method_trace": (c_int32, (c_void_p, c_void_p, c_size_t, _OUT_SIZE)),
    "aotip_method_destroy": (None, (c_void_p,)),
    "aotip_method_input_count": (c_int32, (c_void_p, _OUT_SIZE)),
    "aotip_method_output_count": (c_int32, (c_void_p, _OUT_SIZE)),
    "aotip_method_input_info": (c_int32, (c_void_p, c_size_t, _OUT_VALUE)),
    "aotip_method_output_info": (c_int32, (c_void_p, c_size_t, _OUT_VALUE)),
    "aotip_method_set_output": (c_int32, (c_void_p, c_size_t, c_void_p)),
    "aotip_set_options": (c_int32, (c_void_p, c_size_t)),
    "aotip_get_options": (c_int32, (c_char_p, c_void_p, c_size_t, _OUT_SIZE)),
    "aotip_backend_count": (c_size_t, ()),
    "aotip_backend_name": (c_char_p, (c_size_t,)),
    "aotip_method_execute": (c_int32, (c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)),
    "aotip_method_can_begin": (c_int32, (c_void_p, POINTER(c_int32))),
    "aotip_method_begin": (c_int32, (c_void_p, c_void_p, c_size_t)),
    "aotip_method_finish": (c_int32, (c_void_p, c_void_p, c_size_t)),
}

Options = Mapping[str, Mapping[str, bool | int]]
"""Options of delegates: by the delegate's id, by name."""

_MOST_OPTIONS = 64

_ERROR_NAMES = {
    0x01: "Internal",
    0x02: "InvalidState",
    0x03: "EndOfMethod",
    0x04: "AlreadyLoaded",
    0x10: "NotSupported",
    0x11: "NotImplemented",
    0x12: "InvalidArgument",
    0x13: "InvalidType",
    0x14: "OperatorMissing",
    0x15: "RegistrationExceedingMaxKernels",
    0x16: "RegistrationAlreadyRegistered",
    0x20: "NotFound",
    0x21: "MemoryAllocationFailed",
    0x22: "AccessFailed",
    0x23: "InvalidProgram",
    0x24: "InvalidExternalData",
    0x25: "OutOfResources",
    0x30: "DelegateInvalidCompatibility",
    0x31: "DelegateMemoryAllocationFailed",
    0x32: "DelegateInvalidHandle",
}


class Runner:
    """The loaded library; every call that fails raises ``ProgramError`` with the native reason."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._functions = {}
        for name, (result, arguments) in _SIGNATURES.items():
            try:
                function = getattr(library, name)
            except AttributeError as error:
                raise RuntimeLoadError(
                    f"{library._name} has no function {name}: it is of another version than the "
                    "Python part. Reinstall aoti-plugins."
                ) from error
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function
        self.set_output = self._functions["aotip_method_set_output"]
        self.execute = self._functions["aotip_method_execute"]
        self.begin = self._functions["aotip_method_begin"]
        self.finish = self._functions["aotip_method_finish"]
        self.destroy_program = self._functions["aotip_program_destroy"]
        self.destroy_method = self._functions["aotip_method_destroy"]

    def call(self, name: str, doing: str, *arguments: object) -> None:
        """Call ``name``; on failure raise an error that begins with ``doing``."""
        code = self._functions[name](*arguments)
        if code:
            raise self.error(code, doing)

    def error(self, code: int, doing: str) -> ProgramError:
        """Make the exception for an error code of the call that was just made on this thread."""
        reason = self._functions["aotip_last_error"]()
        text = reason.decode(errors="replace") if reason else "no reason was given"
        name = _ERROR_NAMES.get(code, f"unknown error 0x{code:02x}")
        return ProgramError(f"{doing}: {text}" if name in text else f"{doing}: {text} ({name})")

    def _new_handle(self, name: str, doing: str, *arguments: object) -> int:
        handle = c_void_p()
        self.call(name, doing, *arguments, ctypes.byref(handle))
        return handle.value or 0

    def _count(self, name: str, doing: str, *arguments: object) -> int:
        count = c_size_t()
        self.call(name, doing, *arguments, ctypes.byref(count))
        return count.value

    def load_program(self, path: bytes, data_paths: Sequence[bytes], doing: str) -> int:
        """Open a program file, mapped into memory; returns a new handle."""
        paths = (c_char_p * len(data_paths))(*data_paths)
        return self._new_handle("aotip_program_load", doing, path, paths, len(data_paths), 0)

    def load_program_buffer(self, data: bytes, doing: str) -> int:
        """Open a program from bytes, which are copied; returns a new handle."""
        return self._new_handle("aotip_program_load_buffer", doing, data, len(data))

    def method_names(self, program: int) -> tuple[str, ...]:
        """List the methods of a program."""
        doing = "cannot list the methods"
        names = []
        for index in range(self._count("aotip_program_method_count", doing, program)):
            name = c_char_p()
            self.call("aotip_program_method_name", doing, program, index, ctypes.byref(name))
            names.append((name.value or b"").decode())
        return tuple(names)

    def method_text(self, program: int, method: str, which: Text) -> bytes:
        """What a program says of a method; empty where it says nothing."""
        doing = f"cannot read how method {method!r} is called"
        text, nbytes = c_void_p(), c_size_t()
        arguments = (program, method.encode(), which, ctypes.byref(text), ctypes.byref(nbytes))
        self.call("aotip_program_method_text", doing, *arguments)
        return ctypes.string_at(text.value, nbytes.value) if text.value else b""

    def load_method(
        self,
        program: int,
        name: str,
        options: Options,
        state_of: int | None,
        doing: str,
        traced: bool = False,
    ) -> int:
        """Load a method.

        With the buffers of the program's other methods, or with those of ``state_of``, a handle,
        or, for 0, with buffers of its own. ``traced``, with the program's, keeps what happens.

        Returns:
            A new handle.
        """
        given = _option_array(options)
        arguments = (doing, program, name.encode(), given, len(given))
        if traced:
            return self._new_handle("aotip_method_load_traced", *arguments)
        if state_of:
            return self._new_handle("aotip_method_load_sharing", *arguments, state_of)
        if state_of is None:
            return self._new_handle("aotip_method_load_with", *arguments)
        return self._new_handle("aotip_method_load_apart", *arguments)

    def set_options(self, options: Options, doing: str) -> None:
        """Set options of delegates for the process."""
        given = _option_array(options)
        self.call("aotip_set_options", doing, given, len(given))

    def get_options(self, backend: str, doing: str) -> dict[str, bool | int]:
        """Read the options of a delegate."""
        room, count = (Option * _MOST_OPTIONS)(), c_size_t()
        self.call("aotip_get_options", doing, backend.encode(), room, len(room), count)
        return {
            option.name.decode(): bool(option.value) if option.is_bool else option.value
            for option in room[: count.value]
        }

    def events(self, method: int) -> list[Event]:
        """What happened in the last call; the names' memory belongs to the method."""
        doing = "cannot read the events of a call"
        room = (Event * self._count("aotip_method_trace", doing, method, None, 0))()
        self._count("aotip_method_trace", doing, method, room, len(room))
        return list(room)

    def can_begin(self, method: int) -> bool:
        """Whether calls of a method can be begun and finished apart."""
        found = c_int32()
        self.call("aotip_method_can_begin", "cannot ask a method", method, ctypes.byref(found))
        return bool(found.value)

    def infos(self, method: int, side: str) -> list[Value]:
        """Describe the inputs or outputs (``side``); the shapes' memory belongs to the method."""
        doing = f"cannot describe the {side}s"
        values = []
        for index in range(self._count(f"aotip_method_{side}_count", doing, method)):
            value = Value()
            self.call(f"aotip_method_{side}_info", doing, method, index, ctypes.byref(value))
            values.append(value)
        return values

    def backends(self) -> tuple[str, ...]:
        """List the ids of the registered delegates."""
        name = self._functions["aotip_backend_name"]
        count = self._functions["aotip_backend_count"]()
        return tuple((name(index) or b"").decode() for index in range(count))


def _option_array(options: Options) -> ctypes.Array[Option]:
    """The options as C structs.

    Raises:
        ProgramError: a value is neither a bool nor an int of 32 bits.
    """
    found = []
    for backend, named in options.items():
        for name, value in named.items():
            if not isinstance(value, int) or not -(2**31) <= value < 2**31:
                raise ProgramError(
                    f"option {name!r} of {backend!r} is {value!r}, expected a bool or an int of "
                    "32 bits"
                )
            is_bool = isinstance(value, bool)
            found.append(Option(backend.encode(), name.encode(), is_bool, value))
    return (Option * len(found))(*found)


@functools.cache
def runner() -> Runner:
    """Load the runner, the delegates and what they need, the first time it is asked for."""
    register_all()
    return Runner(load(library(RUNNER)))
