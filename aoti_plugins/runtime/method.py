"""The methods of programs, for Python."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from operator import or_
from typing import Any

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.arguments import in_order
from aoti_plugins.interface.contents import InterfaceValue
from aoti_plugins.runtime._dlpack import gpu_of
from aoti_plugins.runtime._inputs import BORROWED, CUDA, NEUTRAL, TORCH, InputSlot
from aoti_plugins.runtime._locks import new_lock
from aoti_plugins.runtime._outputs import OutputSlot
from aoti_plugins.runtime._runner import Runner, Value
from aoti_plugins.runtime.call_structure import CallStructure
from aoti_plugins.runtime.closing import Closing, NotCopied
from aoti_plugins.runtime.events import CallEvent, call_event
from aoti_plugins.runtime.module import ProgramModule
from aoti_plugins.runtime.specs import ValueInfo, value_info


class _NativeMethod(NotCopied):
    """A native method; destroyed when neither a ``Method`` nor a view of an output has it."""

    def __init__(self, native: Runner, address: int) -> None:
        self._runner = native
        self.address = address
        self.viewed: list[Any] | None = None
        """Inputs of the last call, which views of its outputs may look at."""

    def __del__(self) -> None:
        self._runner.destroy_method(self.address)


class Method(NotCopied, Closing):
    """One loaded method. Made by ``Program.method``.

    Calls of one method wait for each other; threads that are to run at once load a method each.
    """

    def __init__(
        self,
        native: Runner,
        address: int,
        name: str,
        program: str,
        lock: threading.Lock | None = None,
        structure: CallStructure | None = None,
    ) -> None:
        self._structure = structure or CallStructure(f"method {name!r} of the {program}")
        known = self._structure.interface
        self._runner = native
        self._native: _NativeMethod | None = _NativeMethod(native, address)
        self._lock = lock or new_lock()
        self._execute = native.execute
        self._doing = f"method {name!r} of the {program} failed"
        self._kept: list[object] = []
        self._begun: deque[int] = deque()  # what inputs of begun calls ask the outputs to be
        self.name = name
        described = native.infos(address, "input")
        self.inputs = _infos(described, known.inputs)
        """What the method takes."""
        self._out_infos = native.infos(address, "output")
        self._is_on_gpu = False
        self._gpu: Any = None  # torch.device, once an input was there
        self.outputs = _infos(self._out_infos, known.outputs)
        """What the method gives; first the new values of inputs that it writes to, if any."""
        # One array of C structs for all calls; the slots write to and read from it in place.
        ins, outs = (Value * len(self.inputs))(), (Value * len(self.outputs))()
        self._structs = (ins, outs)
        self._in_slots = [
            InputSlot(ins[i], i, info, described[i].dtype, name, self._kept)
            for i, info in enumerate(self.inputs)
        ]
        self._out_slots = [OutputSlot(outs[i], i, name, self._native) for i in range(len(outs))]
        self._n_in = len(ins)
        self._arguments = (
            address,
            ctypes.addressof(ins),
            len(ins),
            ctypes.addressof(outs),
            len(outs),
        )

    def __call__(self, *inputs: Any, copy: bool = True, **named: Any) -> tuple[Any, ...]:
        """Run the method on plain inputs; ``module`` gives what takes and returns structures.

        Args:
            *inputs: one per input: torch tensors, numpy arrays, anything with ``__dlpack__``, or
                Python scalars where the method takes them. Tensors are read in place; one on the
                CPU that is not laid out as the method expects is copied. For a program that was
                lowered for NVIDIA GPUs they may be on the GPU, too: then nothing goes through the
                host, and the work is in the order of the current stream. Where one on a GPU is of
                another library than torch, the call returns when the work is done.
            copy: ``False`` gives tensors that look at the method's own memory, or at an input's
                where the model returns one. The next call of the method changes them; that memory
                stays as long as they do, also when method and program are closed.
            **named: inputs by their name in ``inputs``, where the program says it; those that are
                not given so come first.

        Returns:
            One value per output. Torch tensors on the GPU if an input was there, of whatever
            library, torch can use GPUs, and the method is lowered as a whole; with ``copy=False``
            in the same memory as in the last call, which suits CUDA graphs. Torch tensors on the
            CPU if an input was a torch tensor, or if no input was a tensor of any library and torch
            is imported; numpy arrays otherwise (bfloat16 and 8-bit floats: with the package
            ml_dtypes, else torch tensors). Outputs that the program itself plans on a GPU are
            torch tensors there in any case.

        Raises:
            ProgramError: an input has the wrong type, dtype or shape, is missing, unknown or given
                twice, the method is closed, or it failed.
        """
        if named:
            inputs = self.in_order(inputs, named)
        with self._lock:
            native = self._native
            if native is None:
                raise ProgramError(f"method {self.name!r} is closed")
            if len(inputs) != self._n_in:
                raise self._wrong_count(len(inputs))
            seen = NEUTRAL
            try:
                for slot, value in zip(self._in_slots, inputs, strict=True):
                    binder = slot.binders.get(type(value))
                    seen |= binder(value) if binder else slot.bind(value)
                if seen & CUDA or self._is_on_gpu:
                    code = self._execute_on_gpu(native.address, inputs, seen, copy)
                else:
                    code = self._execute(*self._arguments)
                if code:
                    self._forget_gpu()
                    raise self._runner.error(code, self._doing)
                # An output may be an input's memory, so the kept inputs go only after this.
                if seen & TORCH or (not seen and "torch" in sys.modules):
                    return tuple([slot.torch(copy) for slot in self._out_slots])
                return tuple([slot.numpy(copy) for slot in self._out_slots])
            finally:
                if self._kept:
                    native.viewed = None if copy else list(self._kept)
                    self._kept.clear()

    @functools.cached_property
    def can_begin(self) -> bool:
        """Whether calls can be begun and finished apart.

        They can where the method is one delegate for an NVIDIA GPU as a whole, and its outputs are
        of fixed sizes, up to 4 MiB each, and no inputs. Programs for several ranks fail to begin.
        """
        with self._lock:
            return self._runner.can_begin(self._loaded().address)

    def begin(self, *inputs: Any) -> None:
        """Begin a call, and return while the GPU still works on it.

        Up to two calls may be begun, so that the GPU has the next one to do while the outputs of
        one are looked at; ``finish`` gives these in the order of the calls.

        Args:
            *inputs: as for a call, in host memory.

        Raises:
            ProgramError: an input has the wrong type, dtype or shape, is missing or on a GPU, two
                calls are begun already, the method is closed, cannot begin calls, or failed.
        """
        with self._lock:
            native = self._loaded()
            try:
                if len(inputs) != self._n_in:
                    raise self._wrong_count(len(inputs))
                seen = functools.reduce(or_, map(InputSlot.bind, self._in_slots, inputs), NEUTRAL)
                if seen & CUDA:
                    raise ProgramError(
                        f"{self._doing}: inputs of a call that is begun are in host memory"
                    )
                if self._is_on_gpu:
                    self._use_own_memory(native.address)
                self._begun.append(seen)
                code = self._runner.begin(native.address, *self._arguments[1:3])
                if code:
                    self._begun.pop()
                    raise self._runner.error(code, self._doing)
            finally:
                self._kept.clear()

    def finish(self, *, copy: bool = True) -> tuple[Any, ...]:
        """Wait for the oldest call that was begun.

        Args:
            copy: as for a call; ``False`` gives memory that the next ``finish`` changes, too.

        Returns:
            One value per output, as of a call.

        Raises:
            ProgramError: no call is begun, the method is closed, or it failed.
        """
        with self._lock:
            native = self._loaded()
            seen = self._begun.popleft() if self._begun else NEUTRAL
            code = self._runner.finish(native.address, *self._arguments[3:])
            if code:
                raise self._runner.error(code, self._doing)
            is_torch = seen & TORCH or (not seen and "torch" in sys.modules)
            take = OutputSlot.torch if is_torch else OutputSlot.numpy
            return tuple(take(slot, copy) for slot in self._out_slots)

    def _loaded(self) -> _NativeMethod:
        if self._native is None:
            raise ProgramError(f"method {self.name!r} is closed")
        return self._native

    def _use_own_memory(self, address: int) -> None:
        self._is_on_gpu = False
        for slot in self._out_slots:
            slot.use_own_memory(self._runner, address)

    def module(
        self, *, copy: bool = True, classes: Mapping[str, type] | None = None
    ) -> ProgramModule:
        """Return what calls this method like the exported module; see ``Program.module``."""
        return ProgramModule(self, self._structure, copy=copy, classes=classes or {})

    def in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return all inputs by position.

        Args:
            inputs: those that are given by position.
            named: the others, by their name in ``inputs``.

        Raises:
            ProgramError: one is missing, unknown or given twice, or the program says no names.
        """
        names = [info.name for info in self.inputs]
        if not any(names):
            raise ProgramError(
                f"the program does not say the names of the inputs of method {self.name!r}: give "
                f"them by position, or lower the model again; found {', '.join(map(repr, named))}"
            )
        return tuple(in_order(names, inputs, named, f"method {self.name!r}"))

    def events(self) -> tuple[CallEvent, ...]:
        """What took time in the last call, in the order in which it began.

        Raises:
            ProgramError: the method was not loaded with ``trace=True``, or is closed.
        """
        with self._lock:
            return tuple(map(call_event, self._runner.events(self._loaded().address)))

    def _execute_on_gpu(self, address: int, inputs: tuple[Any, ...], seen: int, fresh: bool) -> int:
        """Execute with outputs on the GPU, or on the host again, behind the current stream."""
        if not seen & CUDA:
            self._use_own_memory(address)
            return int(self._execute(*self._arguments))
        self._is_on_gpu = True
        if self._gpu is None:
            self._gpu = gpu_of(inputs)
        for slot, info in zip(self._out_slots, self._out_infos, strict=True):
            slot.use_gpu_memory(self._runner, address, info, fresh, self._gpu)
        import torch

        # What torch.cuda.current_stream() does, in a tenth of its time.
        if torch._C._cuda_getCurrentRawStream(self._gpu.index) == 0:  # the default one
            code = self._execute(*self._arguments)
        else:
            current, default = (
                torch.cuda.current_stream(self._gpu),
                torch.cuda.default_stream(self._gpu),
            )
            default.wait_stream(current)
            code = self._execute(*self._arguments)
            current.wait_stream(default)
        if seen & BORROWED and not code:
            # An event there comes after the work on all streams of delegates.
            torch.cuda.default_stream(self._gpu).record_event().synchronize()
        return int(code)

    def _forget_gpu(self) -> None:
        """After a failure: the inputs may have been on the wrong GPU."""
        self._gpu = None
        for slot in self._out_slots:
            slot.forget_gpu()

    def _state(self, doing: str) -> tuple[int, threading.Lock]:
        """What a method needs that is to share this one's state: the handle, and who may call."""
        if self._native is None:
            raise ProgramError(f"{doing}: method {self.name!r}, whose state it shares, is closed")
        return self._native.address, self._lock

    def close(self) -> None:
        """Free the method. May be called twice.

        Memory that results of ``copy=False`` look at is freed with the last of them.
        """
        with self._lock:
            self._out_slots.clear()  # they have views, too
            self._native = None

    def _wrong_count(self, found: int) -> ProgramError:
        taken = ", ".join(info.named for info in self.inputs) or "nothing"
        return ProgramError(
            f"method {self.name!r} got {found} inputs, expected {self._n_in}: {taken}"
        )

    def __repr__(self) -> str:
        takes, gives = (
            ", ".join(info.named for info in infos) for infos in (self.inputs, self.outputs)
        )
        return f"<method {self.name!r}: ({takes}) -> ({gives})>"


def _infos(values: Sequence[Value], known: Sequence[InterfaceValue]) -> tuple[ValueInfo, ...]:
    """Describe inputs or outputs.

    Args:
        values: what the native side says.
        known: what the program says of the last ones; of outputs the first ones are inputs' values.
    """
    others = [None] * (len(values) - len(known))
    named = [*others, *known] if len(known) <= len(values) else [None] * len(values)
    return tuple(map(value_info, values, named))
