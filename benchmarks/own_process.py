"""Run a piece of a benchmark in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def result_of(code: str, *arguments: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """Run Python code, whose last line of output is JSON; it may import what lies in this folder.

    Args:
        code: the source.
        arguments: its ``sys.argv[1:]``.
        variables: of the environment, beside those of this process.

    Raises:
        subprocess.CalledProcessError: it failed; with what it said on stderr.
    """
    places = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, places))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **variables},
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))
