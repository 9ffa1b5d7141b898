"""What holds native memory: it is closed, and not copied."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, TypeVar

_Closed = TypeVar("_Closed", bound="Closing")


class Closing(AbstractContextManager["Closing"]):
    """Is closed where its ``with`` statement ends, however it ends."""

    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""

    def __enter__(self: _Closed) -> _Closed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class NotCopied:
    """What owns native memory has one owner: ``copy`` and ``pickle`` refuse it and say so."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, since it owns native memory; "
            "load the program once more instead"
        )
