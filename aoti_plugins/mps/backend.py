"""The MPS delegate's lowering side; its runtime side is native/src/mps/."""

from __future__ import annotations

from typing import final

from executorch.exir.backend.backend_details import BackendDetails

from aoti_plugins.lowering.backend import DeviceBackend
from aoti_plugins.mps.device import MPS


@final
class AotiMpsBackend(DeviceBackend, BackendDetails):
    """Lowers partitions for Apple GPUs. The class name is the backend id in the program."""

    device = MPS
