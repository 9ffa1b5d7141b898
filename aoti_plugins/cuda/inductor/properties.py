"""What Inductor and Triton ask of a GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuProperties:
    """A GPU in the words of ``torch.cuda.get_device_properties``.

    Attributes:
        name: for people.
        major: of the compute capability.
        minor: of the compute capability.
        multi_processor_count: streaming multiprocessors.
        total_memory: device memory in bytes.
        regs_per_multiprocessor: 32-bit registers.
        max_threads_per_multi_processor: resident threads.
        shared_memory_per_block_optin: bytes that one block can have at most.
        shared_memory_per_multiprocessor: bytes of all resident blocks together.
        L2_cache_size: bytes.
        clock_rate: of the multiprocessors, in kHz.
        memory_clock_rate: in kHz, such that twice it times the bus width is the bandwidth.
        memory_bus_width: in bits.
    """

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int
    regs_per_multiprocessor: int
    max_threads_per_multi_processor: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    max_threads_per_block: int = 1024
    shared_memory_per_block: int = 48 * 1024
    warp_size: int = 32
    gcnArchName: str = ""  # noqa: N815  (torch spells it so)
    uuid: str = ""

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor."""
        return self.major, self.minor

    @property
    def arch(self) -> int:
        """The compute capability as one number, for instance 90."""
        return 10 * self.major + self.minor
