"""Compilers that run at the same time, and while code is generated."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering import pipeline
from aoti_plugins.lowering.artifacts import compiler, shared_parts
from aoti_plugins.lowering.inductor.model_interface import expected_interface, split_wrapper

PROMPTLY = 5.0


def test_what_is_compiled_meanwhile_is_waited_for() -> None:
    done = threading.Event()

    def parts() -> None:
        time.sleep(0.1)
        done.set()

    with compiler.compiled_meanwhile(parts) as wait:
        assert not done.is_set()
        wait()
        assert done.is_set()


def test_what_fails_meanwhile_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, compiler.__name__)
    with compiler.compiled_meanwhile(lambda: compiler.run(["false"])) as wait:
        wait()
    assert "what blobs share was not compiled" in caplog.text


@pytest.mark.parametrize("started", [True, False])
def test_who_leaves_early_ends_all_compilers(started: bool) -> None:
    def parts() -> None:
        if not started:
            time.sleep(0.5)
        compiler.for_each(compiler.run, [["sleep", "600"], ["sleep", "600"]])

    leave_early(parts, 2 if started else 0)


def leave_early(parts: Callable[[], object], running: int) -> None:
    """Compile parts, be interrupted when so many compilers run, and find that none is left."""
    begun = time.monotonic()

    def interrupted() -> None:
        with compiler.compiled_meanwhile(parts):
            while len(compiler._all_running) < running:
                time.sleep(0.01)
            time.sleep(0.1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not compiler._all_running
    assert time.monotonic() - begun < PROMPTLY


def test_what_nobody_waited_for_is_stopped() -> None:
    begun = time.monotonic()
    with compiler.begun_for_each(compiler.run, [["sleep", "600"]]):
        while not compiler._all_running:
            time.sleep(0.01)
    assert not compiler._all_running
    assert time.monotonic() - begun < PROMPTLY


def test_who_waits_for_what_was_compiled_ahead_can_end_it() -> None:
    leave_early(compiler.CompiledAhead(lambda: compiler.run(["sleep", "600"])).wait, 1)


def test_a_process_that_ends_waits_for_no_compiler() -> None:
    code = (
        "from aoti_plugins.lowering.artifacts import compiler as c\n"
        "import time\n"
        "c.CompiledAhead(lambda: c.run(['sleep', '600']))\n"
        "while not c._all_running: time.sleep(0.01)\n"
        "print(next(iter(c._all_running)).pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_what_blobs_share_is_begun_before_there_is_a_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def compiled(*given: object) -> None:
        threads.append(threading.current_thread().name)
        compile_shared_parts(*given)

    compile_shared_parts: Callable[..., None] = shared_parts.compile_shared_parts
    monkeypatch.setattr(shared_parts, "_ahead", {})
    monkeypatch.setattr(shared_parts, "compile_shared_parts", compiled)
    monkeypatch.setattr(pipeline._Lowering, "run", lambda *_: 1 / 0)
    exported = torch.export.export(nn.Linear(3, 4).eval(), (torch.randn(2, 3),))
    CpuPartitioner(target="x86_64-v3").plan(exported)
    assert not threads
    for _ in range(2):  # a lowering that came to nothing is not in the way of the next one
        with pytest.raises(LoweringError, match="ZeroDivisionError"):
            to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner(target="x86_64-v3")])
        for begun in shared_parts._ahead.values():
            begun.wait()
    assert threads == ["compiled ahead"] * 2


def test_the_interface_is_known_before_a_wrapper_is_there(tmp_path: Path) -> None:
    exported = torch.export.export(nn.Linear(3, 4).eval(), (torch.randn(2, 3),))
    partitioner = CpuPartitioner(target="x86_64-v3", keep_sources=str(tmp_path))
    to_edge_transform_and_lower(exported, partitioner=[partitioner])
    wrapper = next(tmp_path.rglob("wrapper.cpp")).read_text()
    interface = split_wrapper(wrapper).interface
    assert interface
    assert interface == expected_interface("cpu")
