"""Who reads a program between ExecuTorch's passes and the delegate: the user's passes, an ETRecord.

ExecuTorch tells a partitioner nothing of that, so the call that asks it is looked at. Where it is
not found, somebody is assumed to read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from executorch.exir.program import _program as executorch_program

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.partitioner import Partitioner

_CALLS = ("_gen_edge_manager_for_partitioners", "to_edge_transform_and_lower")
_READERS = ("transform_passes", "generate_etrecord")


def config_of_sole_reader(partitioner: Partitioner) -> EdgeCompileConfig | None:
    """How ExecuTorch makes edge programs for this partitioner; ``None`` if others read them.

    Others are passes of the user (``transform_passes``), an ETRecord, and other partitioners.
    """
    called: dict[str, Any] = {}
    for frame in _frames():
        if frame.f_code.co_name in _CALLS and frame.f_globals is vars(executorch_program):
            called = {**frame.f_locals, **called}
            if frame.f_code.co_name == _CALLS[-1]:
                break
    if not {*_READERS, "partitioner", "config"} <= called.keys():
        return None
    if any(called[name] for name in _READERS):
        return None
    partitioners = called["partitioner"]
    if not isinstance(partitioners, dict):
        return None
    is_alone = all(list(one) == [partitioner] for one in partitioners.values())
    config: EdgeCompileConfig | None = called["config"] if is_alone else None
    return config


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
