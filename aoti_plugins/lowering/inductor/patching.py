"""What is changed inside PyTorch, Triton and the environment while code is generated: as values.

``patch`` makes a ``Patch`` of a generator and puts it on one list, ``replacement`` of a function
that is called in place of another. To open it takes the lock of all lowerings, and checks that what
it replaces is there: whoever lowers has to learn which patch does not fit which PyTorch, and not
that an op is unsupported.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, cast
from unittest import mock

import torch

from aoti_plugins.errors import PatchError
from aoti_plugins.lowering.inductor.versions import Version, tested_range, torch_version

_Given = ParamSpec("_Given")
_Yielded = TypeVar("_Yielded")

# Inductor keeps its state in globals: one lowering at a time.
inductor_lock = threading.RLock()


@dataclass(frozen=True)
class Patch(Generic[_Given, _Yielded]):
    """One change for the time of a block; calling it gives the context manager.

    Attributes:
        set_up: a generator that changes, yields once, and puts back.
        targets: what it changes or relies on, by dotted name; with ``()`` a function that says how
            a switch is set, with ``(self, name)`` one that must have these parameters, in this
            order. Each must be there.
        why: what would happen without it, in a sentence.
        until: when it can go.
        before: the first PyTorch that does not need it: from there on it changes nothing.
    """

    set_up: Callable[_Given, Iterator[_Yielded]]
    targets: tuple[str, ...]
    why: str
    until: str
    before: Version | None = None

    @property
    def name(self) -> str:
        """Module and function."""
        return f"{self.set_up.__module__}.{self.set_up.__name__}"

    @property
    def is_needed(self) -> bool:
        """Whether the PyTorch that is there needs it."""
        return self.before is None or torch_version() < self.before

    @property
    def device(self) -> str:
        """``"cpu"``, ``"cuda"``, ``"mps"``, or ``"any"`` where it is not one device's own."""
        place = self.set_up.__module__.split(".")[1]
        return "any" if place == "lowering" else place

    def __call__(
        self, *args: _Given.args, **kwargs: _Given.kwargs
    ) -> AbstractContextManager[_Yielded]:
        """Make the change; see ``set_up`` for arguments.

        Raises:
            PatchError: on entry: what it changes is not there, or not as it was.
        """
        return self._opened(*args, **kwargs)

    @contextlib.contextmanager
    def _opened(self, *args: _Given.args, **kwargs: _Given.kwargs) -> Iterator[_Yielded]:
        with ExitStack() as stack:
            stack.enter_context(inductor_lock)
            if not self.is_needed:
                yield cast(_Yielded, None)
                return
            try:
                self.check()
                inner = contextlib.contextmanager(self.set_up)(*args, **kwargs)
                yielded = stack.enter_context(inner)
            except (AttributeError, ImportError) as error:
                raise self.misfit(error) from error
            yield yielded

    def check(self) -> None:
        """Look for every target, and at its parameters.

        Raises:
            AttributeError: one is not there, or takes other parameters.
            ImportError: its module is not there.
        """
        for target in self.targets:
            _check_parameters(target, found(target))

    def misfit(self, error: Exception) -> PatchError:
        """The error that says that it does not fit the PyTorch that is there."""
        return PatchError(
            f"the patch {self.name} does not fit PyTorch {torch.__version__}: {error}. "
            f"This version of aoti_plugins was tested with PyTorch {tested_range()}: install "
            "one of these, or a newer aoti_plugins."
        )


_PATCHES: dict[str, Patch[Any, Any]] = {}


def patch(
    *targets: str, why: str, until: str, before: Version | None = None
) -> Callable[[Callable[_Given, Iterator[_Yielded]]], Patch[_Given, _Yielded]]:
    """Make a patch of a generator, and list it; arguments as ``Patch``'s."""

    def made(set_up: Callable[_Given, Iterator[_Yielded]]) -> Patch[_Given, _Yielded]:
        one = Patch(set_up, targets, why, until, before)
        _PATCHES[one.name] = one
        return one

    return made


def replacement(
    target: str, *others: str, why: str, until: str, before: Version | None = None
) -> Callable[[Callable[..., Any]], Patch[[], None]]:
    """Make a patch of what is called in place of a function or method, and list it.

    It is called as by ``replaced``. ``others`` are what it relies on; the rest is as ``Patch``'s.
    """

    def made(function: Callable[..., Any]) -> Patch[[], None]:
        def set_up() -> Iterator[None]:
            place, _, name = _PARAMETERS.sub("", target).rpartition(".")
            with replaced(found(place), name, function):
                yield

        set_up.__module__, set_up.__name__ = function.__module__, function.__name__
        return patch(target, *others, why=why, until=until, before=before)(set_up)

    return made


def replaced(owner: Any, name: str, function: Callable[..., Any]) -> AbstractContextManager[Any]:
    """For a block, call a function in place of another, which it gets before the arguments.

    Args:
        owner: a module or class.
        name: of its function or method.
        function: what is called.
    """
    original = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(original, *args, **kwargs)

    # ``original`` has its class already, if it is a class method.
    is_static = isinstance(inspect.getattr_static(owner, name), staticmethod | classmethod)
    return mock.patch.object(owner, name, staticmethod(called) if is_static else called)


def known_patches() -> tuple[Patch[Any, Any], ...]:
    """Those of all modules that are imported, by name."""
    return tuple(one for _, one in sorted(_PATCHES.items()))


_PARAMETERS = re.compile(r"\((.+)\)$")


def _check_parameters(target: str, value: Any) -> None:
    named = _PARAMETERS.search(target)
    # What another patch has put there is ours.
    if named is None or getattr(value, "__module__", "").startswith("aoti_plugins."):
        return
    expected = named[1].split(", ")
    parameters = list(inspect.signature(value).parameters)
    if [name for name in parameters if name in expected] != expected:
        raise AttributeError(
            f"{target.removesuffix(named[0])!r} takes ({', '.join(parameters)}), "
            f"expected ({', '.join(expected)})"
        )


def found(target: str) -> Any:
    """What a target names; what its function returns where it ends with ``()``.

    Raises:
        AttributeError: it is not there.
        ImportError: its module is not there.
    """
    root, *names = _PARAMETERS.sub("", target).removesuffix("()").split(".")
    value: Any = importlib.import_module(root)
    path = root
    for name in names:
        path += f".{name}"
        if not hasattr(value, name) and isinstance(value, ModuleType):
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(path)
        if not hasattr(value, name):
            raise AttributeError(f"there is no {path!r}")
        value = getattr(value, name)
    return value() if target.endswith("()") else value
