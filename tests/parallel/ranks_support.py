"""Starts the processes of several ranks, and collects what came of them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "rank_worker.py"


@dataclass(frozen=True)
class Ended:
    """What came of a rank.

    Attributes:
        code: the process's exit status.
        outputs: of each call.
        error: the message of the ``ProgramError`` that ended it; empty if none did.
        log: what it wrote.
    """

    code: int
    outputs: list[Any]
    error: str
    log: str


def rank_environment(rank: int, world_size: int, meeting: str, timeout_s: float) -> dict[str, str]:
    """As torchrun sets it, but for the meeting."""
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "AOTI_PLUGINS_RANK_MEETING": meeting,
        "AOTI_PLUGINS_RANK_TIMEOUT": str(timeout_s),
        "OMP_NUM_THREADS": "1",
    }


def run_ranks(
    programs: Sequence[Path | None],
    calls: Sequence[Sequence[Any]],
    *,
    timeout_s: float = 60,
    data_files: Mapping[int, Sequence[Path]] | None = None,
    ends: Mapping[int, str] | None = None,
    method: str = "forward",
) -> list[Ended | None]:
    """Run programs on ranks, a process each, without torch.

    Args:
        programs: by rank; ``None`` for a rank that does not come.
        calls: inputs of each call, the same on all ranks.
        timeout_s: the ranks' time limit.
        data_files: of ranks that have others than those beside their programs.
        ends: ``"exits"`` or ``"sleeps"``: what ranks do between the first two calls.
        method: the method that is called.
    """
    meeting = f"test {uuid.uuid4()}"
    processes = []
    for rank, program in enumerate(programs):
        if program is None:
            processes.append(None)
            continue
        job = {
            "program": str(program),
            "data_files": [str(path) for path in (data_files or {}).get(rank, ())],
            "calls": [list(inputs) for inputs in calls],
            "end": (ends or {}).get(rank, ""),
            "method": method,
        }
        process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            env=rank_environment(rank, len(programs), meeting, timeout_s),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(job))
        process.stdin.close()
        process.stdin = None
        processes.append(process)
    return [None if one is None else _ended(one) for one in processes]


def _ended(process: subprocess.Popen[bytes]) -> Ended:
    try:
        out, log = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    found = pickle.loads(out) if out else {"outputs": [], "error": ""}
    return Ended(process.returncode, found["outputs"], found["error"], log.decode())
