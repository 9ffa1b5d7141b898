"""The exceptions of aoti_plugins: every error that a caller may want to catch has its own class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class AotiPluginsError(Exception):
    """Base class of every error that aoti_plugins raises on purpose."""


class PluginError(AotiPluginsError):
    """A plugin cannot be loaded, breaks a hook's contract, or raised inside a hook."""


class PluginConflictError(PluginError):
    """Plugins contradict each other; ``conflicts`` holds one message per contradiction."""

    def __init__(self, conflicts: tuple[str, ...]) -> None:
        super().__init__("\n\n".join(conflicts))
        self.conflicts = conflicts

    def __reduce__(self) -> tuple[type[PluginConflictError], tuple[tuple[str, ...]]]:
        return type(self), (self.conflicts,)


class PayloadError(AotiPluginsError):
    """A payload (``processed_bytes`` of a delegate) is malformed or cannot be written."""


class LoweringError(AotiPluginsError):
    """A partition cannot be lowered to a delegate."""


class UnsupportedError(LoweringError):
    """A program asks for something that the device, the target or this version cannot do."""


class PatchError(AotiPluginsError):
    """What aoti_plugins replaces inside of PyTorch for a lowering is not there."""


class RuntimeLoadError(AotiPluginsError):
    """The native runtime or one of the libraries it needs cannot be loaded."""


class ProgramError(AotiPluginsError):
    """A program cannot be loaded or run, or was called with the wrong inputs."""


class CheckpointError(AotiPluginsError):
    """A language model's checkpoint or tokenizer is missing, damaged, or cannot be exported."""


class ServingError(AotiPluginsError):
    """A server cannot be started, or is ending."""


class DestinationError(AotiPluginsError):
    """A result cannot be written where it was to go."""


class SignatureError(AotiPluginsError):
    """A key cannot be used, or a program is not signed as it has to be."""


@contextmanager
def needs_extra(extra: str, kind: type[AotiPluginsError]) -> Iterator[None]:
    """Within the block, a package that is missing is an error that says what to install.

    Args:
        extra: of ours that brings what is imported in the block.
        kind: of error.
    """
    try:
        yield
    except ImportError as error:
        raise kind(
            f"the package {error.name} is missing: pip install 'aoti-plugins[{extra}]'"
        ) from error
