"""One rank: reads what to do from standard input, writes what came of it to standard output."""

from __future__ import annotations

import os
import pickle
import sys
import time
from typing import Any

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program


def main() -> None:
    """Load, call, and say what came of it."""
    job = pickle.load(sys.stdin.buffer)
    outputs: list[Any] = []
    error = ""
    try:
        with Program(job["program"], data_files=job["data_files"]) as program:
            method = program.method(job["method"])
            for index, inputs in enumerate(job["calls"]):
                if index == 1 and job["end"] == "exits":
                    os._exit(7)
                if index == 1 and job["end"] == "sleeps":
                    time.sleep(8)
                outputs.append([value.copy() for value in method(*inputs)])
    except ProgramError as failure:
        error = str(failure)
    pickle.dump({"outputs": outputs, "error": error}, sys.stdout.buffer)


if __name__ == "__main__":
    main()
