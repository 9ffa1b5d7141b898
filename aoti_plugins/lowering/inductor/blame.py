"""What an exception is about that came out of Inductor: an op, an option's own code, the machine.

Only what Inductor says of an op may mean that the op is not supported. A full disk or a package
that is missing is not that, and neither is a function that a plugin gave Inductor as an option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import CodeType, TracebackType
from typing import Any

from aoti_plugins.errors import AotiPluginsError, PluginError, UnsupportedError

_OF_THE_MACHINE = (OSError, ImportError, MemoryError)


def is_about_the_op(error: Exception, options: Mapping[str, Any]) -> bool:
    """Whether an exception of a code generation says that an op cannot be generated.

    Args:
        error: what the code generation raised.
        options: Inductor's, with which it ran.
    """
    chain = list(causes(error))
    ours = [one for one in chain if isinstance(one, AotiPluginsError)]
    if ours:
        return all(isinstance(one, UnsupportedError) for one in ours)
    if any(isinstance(one, _OF_THE_MACHINE) for one in chain):
        return False
    return option_at_fault(error, options) is None


def option_at_fault(error: Exception, options: Mapping[str, Any]) -> str | None:
    """The option whose function was running when an exception was raised, if one was."""
    codes = {_code_of(value): name for name, value in options.items() if callable(value)}
    running = (code for one in causes(error) for code in _codes(one.__traceback__))
    return next((codes[code] for code in running if code in codes), None)


def explained(
    error: Exception, options: Mapping[str, Any], provider: Callable[[str], str]
) -> AotiPluginsError | None:
    """What to raise in place of an exception that a plugin caused.

    Args:
        error: what the code generation raised.
        options: Inductor's, with which it ran.
        provider: says which plugin sets an option.

    Returns:
        The error of ours or of a plugin below it, or one that names the option's plugin; ``None``
        for any other.
    """
    for one in causes(error):
        if isinstance(one, AotiPluginsError):
            return one
    name = option_at_fault(error, options)
    if name is None:
        return None
    root = list(causes(error))[-1]
    return PluginError(
        f"Inductor's option {name!r}, which {provider(name)} sets, failed: "
        f"{type(root).__name__}: {root}"
    )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it was made of, the outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or getattr(error, "inner_exception", None)


def _codes(traceback: TracebackType | None) -> Iterator[CodeType]:
    while traceback is not None:
        yield traceback.tb_frame.f_code
        traceback = traceback.tb_next


def _code_of(function: Any) -> CodeType | None:
    """The code of a function, or of an object that can be called."""
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
