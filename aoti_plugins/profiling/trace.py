"""A call as Chrome trace events, which Perfetto and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aoti_plugins.payload import KernelRef
from aoti_plugins.runtime import CallEvent

Origins = Mapping[tuple[int, str], KernelRef]

_PROCESS = 1
_THREADS = {False: (1, "ExecuTorch"), True: (2, "kernels of delegates")}


def trace_events(calls: Sequence[Sequence[CallEvent]], origins: Origins) -> dict[str, Any]:
    """Make the object that such a file holds.

    Args:
        calls: events of calls; times are written in microseconds from the first one.
        origins: what the program says of kernels, by instruction and name.
    """
    begin = min((event.begin_ns for call in calls for event in call), default=0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": tid, "args": {"name": name}}
        for tid, name in _THREADS.values()
    ]
    for number, call in enumerate(calls):
        events += [_complete(event, begin, number, origins) for event in call if event.end_ns]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _complete(event: CallEvent, begin: int, call: int, origins: Origins) -> dict[str, Any]:
    arguments: dict[str, Any] = {"call": call, "instruction": event.instruction}
    origin = origins.get((event.instruction, event.name)) if event.is_kernel else None
    if origin is not None:
        arguments |= {
            "ops": list(origin.ops),
            "modules": list(origin.modules),
            "lines": list(origin.lines),
            "bytes read": origin.nbytes_read,
            "bytes written": origin.nbytes_written,
            "flops": origin.flops,
        }
    return {
        "ph": "X",
        "name": event.name,
        "cat": "kernel" if event.is_kernel else "executorch",
        "ts": (event.begin_ns - begin) / 1000,
        "dur": (event.end_ns - event.begin_ns) / 1000,
        "pid": _PROCESS,
        "tid": _THREADS[event.is_kernel][0],
        "args": arguments,
    }
