"""The thread that runs the model: answers have their steps in turns."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

from aoti_plugins.errors import ServingError


class Turn:
    """An answer among others.

    Args:
        steps: what is advanced by one step in each turn, on the thread that runs the model.
        on_text: called there with what a step gave, if it is not empty.
        on_end: called there once, after the last step, with the exception that ended it, if any.
    """

    def __init__(
        self,
        steps: Iterator[str],
        on_text: Callable[[str], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._steps = steps
        self._on_text = on_text
        self.on_end = on_end
        self._is_cancelled = False

    def cancel(self) -> None:
        """End it before its next step; from any thread, also after its end."""
        self._is_cancelled = True

    def step(self) -> bool:
        """Do one step; whether there may be another one."""
        ended_by: Exception | None = None
        try:
            if not self._is_cancelled:
                text = next(self._steps)
                if text:
                    self._on_text(text)
                return True
        except StopIteration:
            pass
        except Exception as error:  # whatever it is, others go on
            ended_by = error
        self.on_end(ended_by)
        return False


class Turns:
    """Gives each answer one step after the other, so that a long one holds up none.

    All steps run on one thread, since the model can do one at a time.
    """

    def __init__(self) -> None:
        self._turns: deque[Turn] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="aoti_plugins-model", daemon=True)
        self._thread.start()

    @property
    def healthy(self) -> bool:
        """Whether answers can begin."""
        return self._thread.is_alive() and not self._is_closing

    def begin(self, turn: Turn) -> None:
        """Have an answer generated.

        Raises:
            ServingError: the server is ending.
        """
        with self._changed:
            if not self.healthy:
                raise _ending()
            self._turns.append(turn)
            self._changed.notify()

    def close(self, timeout: float) -> bool:
        """End all answers, with a ``ServingError``, and the thread.

        May be called again, to wait for longer.

        Args:
            timeout: seconds to wait for the step that runs.

        Returns:
            Whether it ended; otherwise the model is still in use.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (turn := self._next()) is not None:
            if self._is_closing:
                turn.on_end(_ending())
            elif turn.step():
                with self._changed:
                    self._turns.append(turn)

    def _next(self) -> Turn | None:
        with self._changed:
            self._changed.wait_for(lambda: self._turns or self._is_closing)
            return self._turns.popleft() if self._turns else None


def _ending() -> ServingError:
    return ServingError("the server is ending")
