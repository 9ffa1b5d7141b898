"""Calls a method of a program like the module that was exported."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.arguments import NO_ARGUMENTS, Arguments
from aoti_plugins.interface.classes import Classes
from aoti_plugins.interface.results import Results

if TYPE_CHECKING:
    from aoti_plugins.runtime.call_structure import CallStructure
    from aoti_plugins.runtime.method import Method


class ProgramModule:
    """What ``Program.module`` and ``Method.module`` return.

    Attributes:
        method: that it calls; its state is the method's.
    """

    def __init__(
        self,
        method: Method,
        structure: CallStructure,
        *,
        copy: bool,
        classes: Mapping[str, type],
    ) -> None:
        self.method = method
        self._copy = copy
        self._what = structure.what
        interface = structure.interface
        found = Classes(classes, interface.classes)
        takes = structure.takes() if method.inputs or structure.takes_text else NO_ARGUMENTS
        self._arguments = Arguments(takes, interface, found, structure.what)
        self._results = Results(structure.gives(), found, structure.what)
        self._written = interface.written
        extra = len(method.outputs) - self._results.num_leaves
        if extra != len(self._written):
            raise ProgramError(
                f"{structure.what} has {len(method.outputs)} outputs, {self._results.num_leaves} "
                "of which are the exported module's, and the program does not say what the others "
                "are: call the method itself, or lower the model again"
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method.

        Args:
            *args: arguments as the module took them, in the structure that it was exported with.
            **kwargs: likewise by name; arguments that it was exported with by position may come by
                name, too, where the program says their names. One that the program has as a
                constant need not be given.

        Returns:
            What the module returned, with the classes that it had. The tensors are those that
            ``Method.__call__`` returns. A tensor that the model writes to has its new value.

        Raises:
            ProgramError: arguments are unknown, missing or given twice, have another structure than
                those of the export or other values where the program has constants; and whatever
                ``Method.__call__`` raises it for.
        """
        leaves = self._arguments(args, kwargs)
        results = self.method(*leaves, copy=self._copy)
        for index, value in zip(self._written, results, strict=False):
            self._write(index, leaves[index], value)
        return self._results(list(results[len(self._written) :]))

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Names of the arguments; empty ones come by position only."""
        return self._arguments.names

    def _write(self, index: int, tensor: Any, value: Any) -> None:
        """Give a tensor of the caller's the value that the model gave it."""
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(tensor, torch.Tensor):
            with torch.no_grad():
                tensor.copy_(torch.as_tensor(value))
        elif numpy is not None and isinstance(tensor, numpy.ndarray) and tensor.flags.writeable:
            tensor[...] = value
        else:
            raise ProgramError(
                f"{self._what} ran, but it writes to {self.method.inputs[index].name}, and the "
                f"new value cannot be written to a {type(tensor).__name__}: give it a torch tensor "
                "or a numpy array that can be written to"
            )

    def __repr__(self) -> str:
        names = ", ".join(name or "..." for name in self.argument_names)
        return f"<{self._what}, called with ({names})>"
