"""Answer PyTorch's questions about the GPU from a description.

Inductor asks ``torch.cuda`` and a ``DeviceInterface`` for the device's figures, its current index
and stream, and guards its work with device contexts. None of these needs the device itself: what is
generated depends on the figures alone. Inside the block every answer comes from the description and
nothing reaches a driver, with a CPU build of PyTorch as with a CUDA build. Remembered answers are
dropped on both sides of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from aoti_plugins.cuda.inductor.properties import GpuProperties
from aoti_plugins.lowering.inductor.gpu.answers import fresh_answers
from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch.cuda.is_available",
    "torch.cuda.get_device_properties(device)",
    "torch.cuda.current_device",
    "torch.cuda.device",
    why="Inductor asks a GPU that is not there for its figures.",
    until="aot_compile takes a target",
)
def described_gpu(gpu: GpuProperties) -> Iterator[None]:
    """Let this process believe in one GPU, ``cuda:0``, with these properties."""
    with (
        fresh_answers(),
        mock.patch.multiple(torch.cuda, **_answers(gpu)),
        # A build without CUDA lacks it.
        mock.patch.multiple(torch._C, create=True, _cuda_getCurrentRawStream=lambda device: 0),
        mock.patch.object(torch.version, "cuda", torch.version.cuda or "13.0"),
        _device_interface(gpu),
    ):
        yield


def _answers(gpu: GpuProperties) -> dict[str, Any]:
    """Of ``torch.cuda``."""
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "get_device_name": lambda device=None: gpu.name,
        "get_device_capability": lambda device=None: gpu.capability,
        "get_device_properties": lambda device=None: gpu,
        "is_bf16_supported": lambda including_emulation=True: True,
        "mem_get_info": lambda device=None: (gpu.total_memory, gpu.total_memory),
        "get_rng_state": lambda device="cuda": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device="cuda": None,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "_DeviceGuard": _NoGuard,
        "device": _NoGuard,
    }


class _NoGuard:
    """Stands for ``torch.cuda.device``: there is one device, and it is current."""

    def __init__(self, *device: Any) -> None:
        del device

    def __enter__(self) -> _NoGuard:
        return self

    def __exit__(self, *failure: object) -> None:
        """Failures go on."""


@patch(
    "torch._dynamo.device_interface.device_interfaces",
    "torch._dynamo.device_interface.CudaInterface",
    "torch._dynamo.device_interface.init_device_reg",
    why="Inductor's device interface asks a GPU that is not there.",
    until="aot_compile takes a target",
)
def _device_interface(gpu: GpuProperties) -> Iterator[None]:
    from torch._dynamo import device_interface

    device_interface.init_device_reg()

    class Described(device_interface.CudaInterface):
        class Worker:
            set_device = staticmethod(lambda device: None)
            current_device = staticmethod(lambda: 0)
            get_device_properties = staticmethod(lambda device=None: gpu)

        device = _NoGuard
        current_device = staticmethod(lambda: 0)
        set_device = staticmethod(lambda device: None)
        device_count = staticmethod(lambda: 1)
        synchronize = staticmethod(lambda device=None: None)
        get_device_properties = staticmethod(lambda device=None: gpu)
        get_raw_stream = staticmethod(lambda device=0: 0)
        is_available = staticmethod(lambda: True)
        is_bf16_supported = staticmethod(lambda including_emulation=False: True)
        get_compute_capability = staticmethod(lambda device=None: gpu.arch)
        is_triton_capable = staticmethod(lambda device=None: True)
        raise_if_triton_unavailable = staticmethod(lambda device=None: None)
        maybe_exchange_device = staticmethod(lambda device: 0)
        exchange_device = staticmethod(lambda device: 0)

    answers: dict[Any, Any] = {"cuda": Described, "cuda:0": Described}
    with mock.patch.dict(device_interface.device_interfaces, answers):
        yield
