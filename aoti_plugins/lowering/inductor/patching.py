"""Say which patch does not fit the PyTorch that is there.

A patch of PyTorch's insides is a context manager. When what it replaces is gone, its set-up fails;
whoever lowers has to learn which patch that was and which PyTorch it knows, and not that an op is
unsupported.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import ParamSpec, TypeVar

import torch

from aoti_plugins.errors import PatchError
from aoti_plugins.lowering.inductor.versions import tested_range

_Given = ParamSpec("_Given")
_Yielded = TypeVar("_Yielded")


def patch(
    set_up: Callable[_Given, Iterator[_Yielded]],
) -> Callable[_Given, AbstractContextManager[_Yielded]]:
    """Make a context manager of a generator that patches PyTorch or Triton.

    As ``contextlib.contextmanager``, but a module, class or function that is missing before the
    ``yield`` is a ``PatchError``.
    """
    manager = contextlib.contextmanager(set_up)
    name = f"{set_up.__module__}.{set_up.__name__}"

    @functools.wraps(set_up)
    def opened(*args: _Given.args, **kwargs: _Given.kwargs) -> AbstractContextManager[_Yielded]:
        return _Patch(name, manager(*args, **kwargs))

    return opened


class _Patch(AbstractContextManager[_Yielded]):
    def __init__(self, name: str, inner: AbstractContextManager[_Yielded]) -> None:
        self._name = name
        self._inner = inner

    def __enter__(self) -> _Yielded:
        try:
            return self._inner.__enter__()
        except (AttributeError, ImportError) as error:
            raise PatchError(
                f"the patch {self._name} does not fit PyTorch {torch.__version__}: {error}. "
                f"This version of aoti_plugins was tested with PyTorch {tested_range()}: install "
                "one of these, or a newer aoti_plugins."
            ) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._inner.__exit__(kind, error, traceback)
