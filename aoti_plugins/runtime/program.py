"""Programs and their methods, for Python."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.arguments import in_order
from aoti_plugins.interface.contents import InterfaceValue
from aoti_plugins.payload import pte_header
from aoti_plugins.runtime import trust
from aoti_plugins.runtime._dlpack import gpu_of
from aoti_plugins.runtime._inputs import BORROWED, CUDA, TORCH, InputSlot
from aoti_plugins.runtime._locks import new_lock
from aoti_plugins.runtime._outputs import OutputSlot
from aoti_plugins.runtime._runner import Options, Runner, Value, runner
from aoti_plugins.runtime.call_structure import CallStructure
from aoti_plugins.runtime.closing import Closing
from aoti_plugins.runtime.events import CallEvent, call_event
from aoti_plugins.runtime.module import ProgramModule
from aoti_plugins.runtime.ranks import current_place, data_files_of_rank
from aoti_plugins.runtime.specs import ValueInfo, value_info


class _NotCopied:
    """What owns native memory has one owner: ``copy`` and ``pickle`` refuse it and say so."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, since it owns native memory; "
            "load the program once more instead"
        )


class Program(_NotCopied, Closing):
    """A lowered program, ready to run.

    Loading maps the file; weights and code are loaded with each method. Any number of threads may
    load methods of one program.

    Args:
        source: path of a ``.pte`` file, or its bytes (which are copied).
        data_files: paths of the ``.ptd`` files that hold weights stored outside the program. By
            default none, or, in a process that is one of several ranks, those of this rank beside
            the program where there are any.

    Raises:
        ProgramError: the file is missing, truncated, or no ExecuTorch program.
        SignatureError: this process demands signatures over whole files, and one is missing or
            wrong (``require_signatures``).
        RuntimeLoadError: the native libraries are missing or do not load.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | bytearray | memoryview,
        *,
        data_files: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self._handle = 0
        self._lock = new_lock()
        self._default_lock = new_lock()
        self._methods: weakref.WeakSet[Method] = weakref.WeakSet()
        self._default: Method | None = None
        if isinstance(source, (bytes, bytearray, memoryview)):
            if data_files:
                raise ProgramError(
                    "data files need a program that is loaded from a path, not bytes"
                )
            self._name = f"program of {len(source)} bytes"
            trust.check_no_bytes_demanded()
            data = bytes(source)
            self._check_header(data[: pte_header.HEAD_NBYTES], len(data))
            self._runner = runner()
            self._handle = self._runner.load_program_buffer(data, f"cannot load the {self}")
        else:
            self._name = f"program {os.fspath(source)!r}"
            data_files = data_files or _data_files_here(source)
            paths = [_existing(path) for path in (source, *data_files)]
            with open(source, "rb") as file:
                self._check_header(file.read(pte_header.HEAD_NBYTES), os.stat(source).st_size)
            trust.check_files((source, *data_files))
            self._runner = runner()
            self._handle = self._runner.load_program(paths[0], paths[1:], f"cannot load the {self}")
        self.methods = self._runner.method_names(self._handle)
        """Names of the methods."""

    def method(
        self,
        name: str = "forward",
        *,
        options: Options | None = None,
        share_state: Method | Literal[False] | None = None,
        trace: bool = False,
    ) -> Method:
        """Load a method, with memory of its own for activations.

        Methods of one program share the mutable buffers that have one name, as a module's methods
        do: what one writes the others see. Calls of methods that share buffers wait for each other.
        A buffer has its first value when the first method that uses it is loaded, and goes with the
        last one. A method that is loaded while it is loaded already has buffers of its own, with
        their first values; methods that are loaded after that share those of the newest methods
        that do not have them yet.

        Args:
            name: one of ``methods``.
            share_state: a method of this program, whose mutable buffers this one is to have,
                whatever else is loaded; or ``False`` for buffers that no other method has.
            options: of delegates for this instance, by the delegate's id and by name, for instance
                ``{"AotiCudaBackend": {"cuda_graphs": True}}``.

            trace: keep what happens in calls, for ``Method.events``. Not with ``share_state``.

        Raises:
            ProgramError: there is no such method, a delegate or an operator that it needs is
                missing or refuses the program, or there is no state to share; the message holds
                the native reason.

        Example:
            >>> prefill = program.method("prefill")                    # doctest: +SKIP
            >>> decode = program.method("decode")                      # doctest: +SKIP
            >>> other = program.method("prefill", share_state=False)   # doctest: +SKIP
            >>> other_decode = program.method("decode", share_state=other)   # doctest: +SKIP
        """
        if name not in self.methods:
            known = ", ".join(self.methods) or "none"
            raise ProgramError(f"the {self} has no method {name!r}; it has: {known}")
        if trace and share_state is not None:
            raise ProgramError("a method that is traced takes the program's state: no share_state")
        with self._lock:
            self._check_open()
            doing = f"cannot load method {name!r} of the {self}"
            state_of, call_lock = (
                share_state._state(doing)
                if isinstance(share_state, Method)
                else (0 if share_state is False else None, None)
            )
            handle = self._runner.load_method(
                self._handle, name, options or {}, state_of, doing, trace
            )
            method = Method(self._runner, handle, name, str(self), call_lock, self._structure(name))
            self._methods.add(method)
        return method

    def __call__(self, *inputs: Any, copy: bool = True, **named: Any) -> tuple[Any, ...]:
        """Run ``forward``, or the only method there is; see ``Method.__call__``."""
        default = self._default or self._load_default()
        return default(*inputs, copy=copy, **named)

    def module(
        self,
        name: str | None = None,
        *,
        copy: bool = True,
        classes: Mapping[str, type] | None = None,
    ) -> ProgramModule:
        """Return what is called like the exported module, as ``ExportedProgram.module`` does.

        Args:
            name: of the method; by default ``forward``, or the only one there is, in the instance
                that calls of the program use. A named one is loaded, as by ``method``.
            copy: as for ``Method.__call__``.
            classes: of arguments and results, by the name that PyTorch's pytree has for them;
                others are looked for (``docs/running.md``).

        Raises:
            ProgramError: the method cannot be loaded, or the program does not say how the module
                was called.

        Example:
            >>> model = program.module()                               # doctest: +SKIP
            >>> model(ids, attention_mask=mask).logits                 # doctest: +SKIP
        """
        method = self.method(name) if name else self._default or self._load_default()
        return method.module(copy=copy, classes=classes)

    def _structure(self, name: str) -> CallStructure:
        return CallStructure.read(self._runner, self._handle, name, str(self))

    def close(self) -> None:
        """Free the program and all methods that were loaded from it. May be called twice."""
        with self._lock:
            for method in list(self._methods):
                method.close()
            self._default = None
            handle, self._handle = self._handle, 0
        if handle:
            self._runner.destroy_program(handle)

    def _load_default(self) -> Method:
        with self._default_lock:
            return self._default or self._new_default()

    def _new_default(self) -> Method:
        self._check_open()
        if "forward" in self.methods:
            name = "forward"
        elif len(self.methods) == 1:
            name = self.methods[0]
        else:
            known = ", ".join(self.methods) or "none"
            raise ProgramError(
                f"the {self} has no method 'forward'; choose one with .method(name): {known}"
            )
        self._default = self.method(name)
        return self._default

    def _check_header(self, head: bytes, nbytes: int) -> None:
        """Find the common damages first: ExecuTorch's own messages do not tell them apart."""
        problem = pte_header.problem(head, nbytes)
        if problem:
            raise ProgramError(f"the {self} {problem}")

    def _check_open(self) -> None:
        if not self._handle:
            raise ProgramError(f"the {self} is closed")

    def __del__(self) -> None:
        # Methods that the caller still holds keep the native program alive by themselves.
        if getattr(self, "_handle", 0):
            self._runner.destroy_program(self._handle)
            self._handle = 0

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        if not self._handle:
            return f"<{self._name}: {', '.join(self.methods)}, closed>"
        return f"<{self._name}: {', '.join(map(self._described, self.methods))}>"

    def _described(self, name: str) -> str:
        """A method, with what it takes and gives where the program says it."""
        try:
            return f"{name}{self._structure(name)}"
        except ProgramError:  # damaged, which is for those to hear who load the method
            return name


class _NativeMethod(_NotCopied):
    """A native method; destroyed when neither a ``Method`` nor a view of an output has it."""

    def __init__(self, native: Runner, address: int) -> None:
        self._runner = native
        self.address = address
        self.viewed: list[Any] | None = None
        """Inputs of the last call, which views of its outputs may look at."""

    def __del__(self) -> None:
        self._runner.destroy_method(self.address)


class Method(_NotCopied, Closing):
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
            seen = 0
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
            if self._native is None:
                raise ProgramError(f"method {self.name!r} is closed")
            return tuple(map(call_event, self._runner.events(self._native.address)))

    def _execute_on_gpu(self, address: int, inputs: tuple[Any, ...], seen: int, fresh: bool) -> int:
        """Execute with outputs on the GPU, or on the host again, behind the current stream."""
        self._is_on_gpu = on_gpu = bool(seen & CUDA)
        if on_gpu and self._gpu is None:
            self._gpu = gpu_of(inputs)
        for slot, info in zip(self._out_slots, self._out_infos, strict=True):
            if on_gpu:
                slot.use_gpu_memory(self._runner, address, info, fresh, self._gpu)
            else:
                slot.use_own_memory(self._runner, address)
        if not on_gpu:
            return int(self._execute(*self._arguments))
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


def set_options(backend: str, **options: bool | int) -> None:
    """Set options of a delegate for the whole process, all or none of them.

    Args:
        backend: the delegate's id, for instance ``"AotiCudaBackend"``.
        **options: see ``get_options`` for the names; ``docs/running.md`` (the CPU)
            and ``docs/cuda-runtime.md`` say what they mean.

    Raises:
        ProgramError: there is no such delegate or option, or a value of the wrong kind or out of
            range; the message lists those that there are.

    Example:
        >>> from aoti_plugins.runtime import set_options
        >>> set_options("AotiCudaBackend", memory_limit_mib=4096)   # doctest: +SKIP
    """
    runner().set_options({backend: options}, f"cannot set options of {backend!r}")


def get_options(backend: str) -> dict[str, bool | int]:
    """Return the options of a delegate with their values.

    Raises:
        ProgramError: there is no such delegate.
    """
    return runner().get_options(backend, f"cannot read options of {backend!r}")


def backends() -> tuple[str, ...]:
    """Return the ids of the delegates that this process knows, ExecuTorch's own ones included."""
    return runner().backends()


def _infos(values: Sequence[Value], known: Sequence[InterfaceValue]) -> tuple[ValueInfo, ...]:
    """Describe inputs or outputs.

    Args:
        values: what the native side says.
        known: what the program says of the last ones; of outputs the first ones are inputs' values.
    """
    others = [None] * (len(values) - len(known))
    named = [*others, *known] if len(known) <= len(values) else [None] * len(values)
    return tuple(map(value_info, values, named))


def _data_files_here(source: str | os.PathLike[str]) -> Sequence[str | os.PathLike[str]]:
    """The files of this process's rank beside a program, where it is one of several."""
    rank, world_size = current_place()
    return data_files_of_rank(source, rank) if world_size > 1 else ()


def _existing(path: str | os.PathLike[str]) -> bytes:
    """Check that a file is there, because the native message would not say which is not."""
    if not Path(path).is_file():
        raise ProgramError(f"there is no file {os.fspath(path)!r}")
    return os.fsencode(path)
