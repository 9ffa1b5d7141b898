"""Servers in processes of their own, as a user starts them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STEP_S = 0.04
"""What a step of a slow server takes."""
_START_S = 60
_SLOWLY = """
import sys, time
from aoti_plugins.generation import generator

choose, seconds = generator.choose, float(sys.argv.pop(1))

def slowly(*arguments):
    time.sleep(seconds)
    return choose(*arguments)

generator.choose = slowly
from MODULE import main
main()
"""


def slowly(module: str) -> list[str]:
    """How Python runs ``main`` of a module with steps that take ``STEP_S``."""
    return [sys.executable, "-c", _SLOWLY.replace("MODULE", module), str(STEP_S)]


class Server:
    """A server, and a client of it.

    Attributes:
        process: it.
        url: its base URL.
        said: its first line.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        self.said = process.stderr.readline()
        found = re.search(r"http://[^;]*", self.said)
        assert found is not None, self.said + process.communicate()[1]
        self.url = found[0]

    def client(self, **options: Any) -> Any:
        from openai import OpenAI

        return OpenAI(base_url=self.url, api_key="none", max_retries=0, **options)

    def interrupt(self) -> tuple[int, str, float]:
        """Send SIGINT; the status, what it said, and the seconds that it took."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=_START_S)
        return self.process.returncode, said, time.monotonic() - start


@contextmanager
def served(
    program: Path, *options: object, is_slow: bool = False, num_ranks: int = 1
) -> Iterator[Server]:
    """Run ``aoti-plugins serve`` on a free port; several ranks by torchrun."""
    torchrun = ["-m", "torch.distributed.run", f"--nproc-per-node={num_ranks}"]
    usual = [sys.executable, *(torchrun if num_ranks > 1 else []), "-m", "aoti_plugins"]
    command = slowly("aoti_plugins.cli") if is_slow else usual
    arguments = [*command, "serve", program, "--port", 0, *options]
    process = subprocess.Popen(
        [str(one) for one in arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.communicate()
