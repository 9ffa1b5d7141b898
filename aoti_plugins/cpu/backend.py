"""The CPU delegate's lowering side; its runtime side is native/src/cpu/."""

from __future__ import annotations

from typing import final

from executorch.exir.backend.backend_details import BackendDetails

from aoti_plugins.cpu.device import CPU
from aoti_plugins.lowering.backend import DeviceBackend


@final
class AotiCpuBackend(DeviceBackend, BackendDetails):
    """Lowers partitions for the CPU. The class name is the backend id in the program."""

    device = CPU
