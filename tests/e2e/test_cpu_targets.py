"""One program with code for several CPUs: each has its own, and the best that fits is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from support import lower

from aoti_plugins.cpu.target import TARGETS, host_machine
from aoti_plugins.lowering.artifacts.elf import read_shared_object
from aoti_plugins.payload import decode
from aoti_plugins.runtime import Program


def test_several_targets(example_models: dict[str, Callable[[], Any]]) -> None:
    names = [target.name for target in TARGETS if target.machine == host_machine()]
    model, inputs = example_models["mlp"]()
    lowered = lower(model, inputs, targets=names)
    (delegate,) = lowered.executorch_program.execution_plan[0].delegates
    data = lowered.executorch_program.backend_delegate_data[delegate.processed.index].data
    payload = decode(bytes(data))
    assert [target.name for target in payload.targets] == names
    assert len({target.artifact_key for target in payload.targets}) == len(names)
    assert len(payload.storages) == 4  # the weights are there once
    with Program(bytes(lowered.buffer)) as program, torch.no_grad():
        torch.testing.assert_close(program(*inputs)[0], model(*inputs), rtol=1e-4, atol=1e-5)


def test_debug_info_is_kept_on_request(
    example_models: dict[str, Callable[[], Any]], blobs_of: Any, tmp_path: Any
) -> None:
    model, inputs = example_models["mlp"]()
    path = tmp_path / "debug.pte"
    lowered = lower(model, inputs, debug_info=True, keep_sources=str(tmp_path / "sources"))
    path.write_bytes(bytes(lowered.buffer))
    (blob,) = blobs_of(path)
    assert b".debug_line" in blob
    assert read_shared_object(blob).machine == host_machine()
    (folder,) = (tmp_path / "sources").iterdir()
    assert "AOTInductorModel" in (folder / "wrapper.cpp").read_text()
    with Program(path) as program, torch.no_grad():
        torch.testing.assert_close(program(*inputs)[0], model(*inputs), rtol=1e-4, atol=1e-5)
