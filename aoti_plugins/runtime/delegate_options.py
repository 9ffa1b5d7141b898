"""Options of delegates, for the whole process."""

from __future__ import annotations

from aoti_plugins.runtime._runner import runner


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
