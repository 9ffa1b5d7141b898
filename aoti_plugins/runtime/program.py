"""Programs, for Python."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from aoti_plugins.errors import ProgramError
from aoti_plugins.payload import pte_header
from aoti_plugins.runtime import trust
from aoti_plugins.runtime._locks import new_lock
from aoti_plugins.runtime._runner import Options, runner
from aoti_plugins.runtime.call_structure import CallStructure
from aoti_plugins.runtime.closing import Closing, NotCopied
from aoti_plugins.runtime.method import Method
from aoti_plugins.runtime.module import ProgramModule
from aoti_plugins.runtime.ranks import current_place, data_files_of_rank


class Program(NotCopied, Closing):
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


def _data_files_here(source: str | os.PathLike[str]) -> Sequence[str | os.PathLike[str]]:
    """The files of this process's rank beside a program, where it is one of several."""
    rank, world_size = current_place()
    return data_files_of_rank(source, rank) if world_size > 1 else ()


def _existing(path: str | os.PathLike[str]) -> bytes:
    """Check that a file is there, because the native message would not say which is not."""
    if not Path(path).is_file():
        raise ProgramError(f"there is no file {os.fspath(path)!r}")
    return os.fsencode(path)
