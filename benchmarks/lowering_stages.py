"""How long a lowering took, by its stages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.types import ProgressEvent


class Stages:
    """A plugin that adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @hookimpl
    def aoti_progress(self, event: ProgressEvent) -> None:
        """Count what has ended."""
        if event.status == "end":
            self.seconds[event.stage] = self.seconds.get(event.stage, 0) + event.seconds


def timed(lower: Callable[[], object]) -> dict[str, Any]:
    """The seconds of a lowering, and those of its stages."""
    stages = Stages()
    with get_manager().registered(stages, "stages"):
        start = time.perf_counter()
        lower()
        seconds = time.perf_counter() - start
    stages.seconds["partition and the rest"] = seconds - sum(stages.seconds.values())
    return {"seconds": seconds, "stages": stages.seconds}
