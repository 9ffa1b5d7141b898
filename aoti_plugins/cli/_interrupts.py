"""Ends a command on Ctrl-C: soon, with status 130, whatever it is doing.

Python makes an exception of the signal, in the main thread. That one is late while native code
runs, and is lost in the callback of a weak reference, in ``__del__``, and in a library that catches
everything. So a thread watches: it has an exception that was lost raised again, and ends the
process where that does not help.
"""

from __future__ import annotations

import _thread
import atexit
import os
import select
import signal
import sys
import threading
import time
from contextlib import contextmanager

TYPE_CHECKING = False  # that of typing, whose import takes longer than everything here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any, NoReturn

STATUS = 130
"""As shells have it: 128, and the number of SIGINT."""

_AGAIN_S = 0.8  # what cleans up takes less
_END_S = 1.5
_MOMENT_S = 0.01
_LOST = b"\0"  # what a signal writes is its number


class Interrupts:
    """What happens on Ctrl-C in this process.

    Attributes:
        command: name of the command that runs; empty before and after, when there is nothing to
            clean up and the process ends at once.
        happened: there was a Ctrl-C while a command ran.
    """

    def __init__(self) -> None:
        self.command = ""
        self.happened = False
        self._is_told = False
        self._in_hook = False
        self._pipe = (-1, -1)

    def install(self) -> None:
        """Take over Ctrl-C, unless it is ignored, as in what a shell starts with ``&``."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        sys.unraisablehook = self._on_unraisable
        threading.Thread(target=self._watch, name="aoti_plugins-interrupts", daemon=True).start()

    @contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """Ctrl-C does not end the command in here; gives a function that says whether it came.

        A second one ends it as usual. Only in the main thread.
        """
        usual = signal.getsignal(signal.SIGINT)
        wakeup = signal.set_wakeup_fd(-1)
        came = False

        def note(number: int, frame: FrameType | None) -> None:
            nonlocal came
            if came:
                signal.signal(signal.SIGINT, usual)
                signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
                signal.raise_signal(signal.SIGINT)
            came = True

        signal.signal(signal.SIGINT, note)
        try:
            yield lambda: came
        finally:
            signal.signal(signal.SIGINT, usual)
            signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)

    def tell(self) -> None:
        """Tell the user, once."""
        if not self._is_told:
            self._is_told = True
            os.write(2, f"interrupted: {self.command or 'aoti-plugins'} did not finish\n".encode())

    def end_if_it_happened(self) -> None:
        """End at once after an interrupt: what PyTorch does at the end takes a second or two."""
        if self.happened:
            atexit._run_exitfuncs()  # temporary folders
            self._end()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self.command:
            self._end()
        self.happened = True
        if self._in_hook:
            os.write(self._pipe[1], _LOST)
        else:
            raise KeyboardInterrupt

    def _on_unraisable(self, unraisable: Any) -> None:
        """Called where an exception was lost; it must not raise one itself."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        self._in_hook = True
        os.write(self._pipe[1], _LOST)
        self._in_hook = False

    def _watch(self) -> None:
        """Read what the signal itself writes, which the main thread cannot hold up."""
        times: list[float] = []
        while True:
            wait = max(0.0, times[0] - time.monotonic()) if times else None
            if not select.select([self._pipe[0]], [], [], wait)[0]:
                del times[0]
                if not times:
                    self._end()
                _thread.interrupt_main()
                continue
            if os.read(self._pipe[0], 1) == _LOST:
                time.sleep(_MOMENT_S)  # out of the callback
                _thread.interrupt_main()
            elif not times:
                now = time.monotonic()
                times = [now + _AGAIN_S, now + _END_S]

    def _end(self) -> NoReturn:
        """End this process without its leave, but with the compilers and files that it started."""
        for module, function in (
            ("aoti_plugins.lowering.artifacts.compiler", "stop_all"),
            ("aoti_plugins.destinations", "remove_unfinished"),
        ):
            if module in sys.modules:
                getattr(sys.modules[module], function, lambda: None)()
        self.tell()
        os._exit(STATUS)


interrupts = Interrupts()
"""Of this process."""
