"""Graph passes, one per file; the device plugins offer them through ``aoti_graph_passes``."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from aoti_plugins.types import GraphPass


def own_pass(
    device: str, name: str, *, after: str, before: str | None = None, **arguments: Any
) -> GraphPass:
    """The pass ``aoti_plugins.NAME`` that a device has in ``passes/NAME.py``.

    Args:
        device: the folder of the device, or ``lowering`` for what several have.
        name: of the module, and of the pass in it. Its function ``is_replaced``, if it has one, is
            what the pass handles.
        after: another pass of ours that must have run.
        before: one that must run later.
        arguments: more of the pass's.
    """
    module = import_module(f"aoti_plugins.{device}.passes.{name}")
    return GraphPass(
        f"aoti_plugins.{name}",
        partial(getattr(module, name), **arguments),
        before=() if before is None else (f"aoti_plugins.{before}",),
        after=(f"aoti_plugins.{after}",),
        handles=getattr(module, "is_replaced", None),
    )
