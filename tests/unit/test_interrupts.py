"""Ctrl-C ends the command line within two seconds with 130, whatever swallows the exception."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

PROMPTLY = 5.0
"""Seconds between the signal and the end of the process: two, and more where other tests run."""

START = """
import ctypes, gc, os, signal, sys, threading, time, weakref
from aoti_plugins.cli._interrupts import interrupts

interrupts.install()
interrupts.command = "test"

def interrupt():
    print(time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the handler runs in here
        pass

class Thing:
    pass
"""

# Each would go on for a minute if the exception were lost in it.
LOST = {
    "in a callback of a weak reference": """
        thing = Thing()
        reference = weakref.ref(thing, lambda _: interrupt())
        del thing
        time.sleep(60)
    """,
    "in a destructor": """
        Thing.__del__ = lambda self: interrupt()
        things = [Thing() for _ in range(20)]
        del things
        time.sleep(60)
    """,
    "where everything is caught": """
        try:
            interrupt()
        except:
            pass
        time.sleep(60)
    """,
    "where everything is caught again and again": """
        while True:
            try:
                interrupt()
                time.sleep(60)
            except BaseException:
                pass
    """,
    "in native code": """
        threading.Timer(0.1, interrupt).start()
        ctypes.CDLL(None).poll(None, 0, 60_000)
        ctypes.CDLL(None).poll(None, 0, 60_000)
    """,
    "while other threads are waited for": """
        threading.Thread(target=time.sleep, args=(60,)).start()
        interrupt()
    """,
}


def ended(code: str) -> tuple[int, str]:
    """Run code in a process that Ctrl-C reaches; its status and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    end = time.monotonic()
    if done.stdout:  # the time of the signal; that clock is the same for all processes
        assert end - float(done.stdout.partition("\n")[0]) < PROMPTLY
    return done.returncode, done.stderr


@pytest.mark.parametrize("code", LOST.values(), ids=LOST)
def test_an_interrupt_is_never_lost(code: str) -> None:
    status, printed = ended(
        f"""
def work():
{textwrap.indent(textwrap.dedent(code), "    ")}
try:
    work()
except KeyboardInterrupt:
    interrupts.tell()
    sys.exit(130)
"""
    )
    assert status == 130, printed
    assert printed == "interrupted: test did not finish\n"


def test_what_was_started_goes_too(tmp_path: Path) -> None:
    """The process ends from outside, so nothing unwinds."""
    status, printed = ended(
        f"""
        import subprocess
        from aoti_plugins import destinations
        from aoti_plugins.lowering.artifacts import compiler

        def compile():
            compiler.run([sys.executable, "-c", "import time; time.sleep(60)"])

        threading.excepthook = lambda failed: None  # the compiler that is stopped
        threading.Thread(target=compile, daemon=True).start()
        while not compiler._all_running:
            time.sleep(0.01)
        (process,) = compiler._all_running
        print(process.pid, flush=True, file=sys.stderr)
        with destinations.writing({str(tmp_path / "a.bin")!r}) as file:
            file.write(b"half")
            threading.Timer(0.1, interrupt).start()
            while True:
                try:
                    time.sleep(60)
                except BaseException:
                    pass
        """
    )
    pid, *_, message = printed.splitlines()
    assert (status, message) == (130, "interrupted: test did not finish")
    assert list(tmp_path.iterdir()) == []
    for _ in range(100):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the compiler still runs")


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.3])
def test_at_the_start_of_a_command(delay_s: float) -> None:
    """From the moment that Python has found the script: imports, options, the command's own."""
    status, printed = ended(
        f"""
        interrupts.command = ""
        threading.Timer({delay_s}, os.kill, (os.getpid(), signal.SIGINT)).start()
        sys.argv = ["aoti-plugins", "run", "--repeat", "3", "none.pte"]
        from aoti_plugins.cli import main
        import runpy
        try:
            main()
        finally:
            time.sleep(1)  # an early end would come before the signal
        """
    )
    assert status == 130, printed
    assert "Traceback" not in printed
    assert printed.splitlines()[-1].startswith("interrupted: ")


def test_what_a_shell_put_into_the_background_is_not_interrupted() -> None:
    code = START.replace("interrupts.command", "signal.raise_signal(signal.SIGINT)\n#")
    done = subprocess.run(
        [sys.executable, "-c", code + "\nprint('whole')"],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.stdout == "whole\n"
