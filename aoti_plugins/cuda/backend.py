"""The CUDA delegate's lowering side; its runtime side is native/src/cuda/."""

from __future__ import annotations

from typing import final

from executorch.exir.backend.backend_details import BackendDetails

from aoti_plugins.cuda.device import CUDA
from aoti_plugins.lowering.backend import DeviceBackend


@final
class AotiCudaBackend(DeviceBackend, BackendDetails):
    """Lowers partitions for NVIDIA GPUs. The class name is the backend id in the program."""

    device = CUDA
