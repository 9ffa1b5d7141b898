"""Let Triton compile for a described GPU.

Triton's compiler needs no GPU: it wants an active driver that names the target, and after a
compilation it loads the binary to learn registers and spills. The driver here names the described
target, reads registers and spills from the binary itself, and its launches do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from aoti_plugins.cuda.inductor.properties import GpuProperties
from aoti_plugins.cuda.tuning.cubin import registers_and_spills
from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "triton.runtime.driver._active",
    "torch._inductor.runtime.triton_helpers.set_driver_to_gpu",
    why="Triton asks the driver for its target.",
    until="Inductor takes the target from device properties alone",
)
def triton_driver(gpu: GpuProperties) -> Iterator[None]:
    """Make the described GPU Triton's active target."""
    import triton
    from torch._inductor.runtime import triton_helpers

    described = _driver_class()(gpu)
    config = triton.runtime.driver
    before = config._active
    config.set_active(described)
    try:
        # Inductor's kernels ask for a real GPU's driver; ours is active already.
        with mock.patch.object(triton_helpers, "set_driver_to_gpu", return_value=None):
            yield
    finally:
        config._active = before


def _driver_class() -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class DescribedDriver(DriverBase):
        """A driver without a device."""

        def __init__(self, gpu: GpuProperties) -> None:
            self._gpu = gpu
            self.utils = _Utils(gpu)
            self.launcher_cls = _Launcher

        @classmethod
        def is_active(cls) -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", self._gpu.arch, self._gpu.warp_size)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cuda", 0)

        def get_benchmarker(self) -> Any:
            raise RuntimeError("nothing can be measured without a GPU")

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, device: int) -> None:
            del device

        def get_current_stream(self, device: int) -> int:
            del device
            return 0

    return DescribedDriver


class _Utils:
    """What Triton's compiled kernels ask of the driver."""

    def __init__(self, gpu: GpuProperties) -> None:
        self._gpu = gpu

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> Any:
        """Module, function, registers, spills, and the most threads that a block can have."""
        del shared, device
        registers, spills = registers_and_spills(kernel, name)
        rounded = -(-max(registers, 1) // 8) * 8
        threads = self._gpu.regs_per_multiprocessor // rounded // 32 * 32
        # No module: a kernel that has one unloads it when it goes, which may be after the block.
        return None, 1, registers, spills, min(threads, self._gpu.max_threads_per_block)

    def get_device_properties(self, device: int) -> dict[str, int]:
        """The figures that Triton asks for."""
        del device
        return {
            "max_shared_mem": self._gpu.shared_memory_per_block_optin,
            "max_num_regs": self._gpu.regs_per_multiprocessor,
            "multiprocessor_count": self._gpu.multi_processor_count,
            "warpSize": self._gpu.warp_size,
            "sm_clock_rate": self._gpu.clock_rate,
            "mem_clock_rate": self._gpu.memory_clock_rate,
            "mem_bus_width": self._gpu.memory_bus_width,
        }


class _Launcher:
    """Launches of compiled kernels do nothing."""

    def __init__(self, src: Any, metadata: Any) -> None:
        del src
        self.global_scratch_size = getattr(metadata, "global_scratch_size", 0)
        self.profile_scratch_size = getattr(metadata, "profile_scratch_size", 0)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""
