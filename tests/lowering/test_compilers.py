"""Compilers that run at the same time, and while code is generated."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner
from aoti_plugins.lowering.artifacts import compiler
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
    begun = time.monotonic()

    def parts() -> None:
        if not started:
            time.sleep(0.5)
        compiler.for_each(compiler.run, [["sleep", "600"], ["sleep", "600"]])

    def interrupted() -> None:
        with compiler.compiled_meanwhile(parts):
            while started and len(compiler._all_running) < 2:
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not compiler._all_running
    assert time.monotonic() - begun < PROMPTLY


def test_the_interface_is_known_before_a_wrapper_is_there(tmp_path: Path) -> None:
    exported = torch.export.export(nn.Linear(3, 4).eval(), (torch.randn(2, 3),))
    partitioner = CpuPartitioner(target="x86_64-v3", keep_sources=str(tmp_path))
    to_edge_transform_and_lower(exported, partitioner=[partitioner])
    wrapper = next(tmp_path.rglob("wrapper.cpp")).read_text()
    interface = split_wrapper(wrapper).interface
    assert interface
    assert interface == expected_interface("cpu")
