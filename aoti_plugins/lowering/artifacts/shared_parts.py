"""What all blobs of a target share is compiled before there is a partition.

While ExecuTorch decomposes a program, one core has nothing to do. What blobs share takes seconds,
and is known as soon as Inductor has answered one question.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial

from aoti_plugins import native_files
from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.device import Device
from aoti_plugins.lowering.artifacts.compiler import CompiledAhead
from aoti_plugins.lowering.artifacts.shared_object import SharedObjectBuild, compile_shared_parts
from aoti_plugins.lowering.inductor.model_interface import expected_interface
from aoti_plugins.types import Target

_lock = threading.Lock()
_ahead: dict[str, CompiledAhead] = {}


def any_build(device: Device, target: Target, options: LoweringOptions) -> SharedObjectBuild:
    """How all blobs of a target are compiled."""
    return SharedObjectBuild(
        device=device.torch_type,
        machine=target.machine,
        target_flags=tuple(target.properties["cxx_flags"]),
        runtime_libraries=tuple(map(native_files.library, device.libraries)),
        include_dir=native_files.include_dir(),
        headers=device.headers(target),
        debug_info=options.debug_info,
    )


def compile_shared(device: Device, target: Target, options: LoweringOptions) -> None:
    """Compile what all blobs of a target share, or wait where that has begun.

    A device that builds its blobs itself may have nothing to share.

    Raises:
        LoweringError: no compiler, or it failed.
    """
    if device.build is not Device.build:
        return
    interface = expected_interface(device.torch_type)
    with _lock:
        begun = _ahead.pop(_key(device, target, options, interface), None)
    if begun is not None:
        begun.wait()
    compile_shared_parts(interface, any_build(device, target, options))


def compile_shared_ahead(
    device: Device, targets: Iterable[Target], options: LoweringOptions
) -> None:
    """Begin with it in a thread, for each target; where no wrapper was seen yet, do nothing.

    What is wrong is told to who needs it.
    """
    interface = expected_interface(device.torch_type)
    if device.build is not Device.build or not interface:
        return

    def compiled(target: Target) -> None:
        compile_shared_parts(interface, any_build(device, target, options))

    for target in targets:
        key = _key(device, target, options, interface)
        with _lock:
            if key not in _ahead or not _ahead[key].is_running:
                _ahead[key] = CompiledAhead(partial(compiled, target))


def _key(device: Device, target: Target, options: LoweringOptions, interface: str) -> str:
    return repr((device.name, target, options.debug_info, interface))
