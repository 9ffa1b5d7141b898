"""What has to be closed, in a ``with`` statement."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TypeVar

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
