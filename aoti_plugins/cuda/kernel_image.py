"""What a blob holds for one GPU kernel: its binary, or a container with binary and PTX.

The container, little-endian, must match native/src/cuda/:

    8 bytes   magic "AOTIKRN1"
    uint32    number of entries
    then for each entry
    uint32    kind: 1 a binary, 2 PTX that ends with a zero byte
    uint32    compute capability, for instance 80
    uint64    offset of the data from the start of the container, a multiple of 64
    uint64    bytes of the data
"""

from __future__ import annotations

import struct

from aoti_plugins.cuda.inductor.early_launch import begins_early, waiting_binary
from aoti_plugins.cuda.target import cuda_target_of
from aoti_plugins.lowering.inductor.capture import GpuKernel
from aoti_plugins.types import Target

MAGIC = b"AOTIKRN1"
_BINARY, _PTX = 1, 2
_HEADER = struct.Struct("<8sI")
_ENTRY = struct.Struct("<IIQQ")
_ALIGNMENT = 64


def kernel_image(target: Target, kernel: GpuKernel) -> bytes:
    """The bytes to embed for a kernel."""
    gpu = cuda_target_of(target)
    if begins_early(gpu):
        return waiting_binary(gpu, kernel)
    if not gpu.ptx:
        return kernel.binary
    arch = gpu.capability_number
    ptx = kernel.assembly.encode() + b"\0"
    return _container([(_BINARY, arch, kernel.binary), (_PTX, arch, ptx)])


def _container(parts: list[tuple[int, int, bytes]]) -> bytes:
    header = bytearray(_HEADER.pack(MAGIC, len(parts)))
    data = bytearray()
    start = _aligned(_HEADER.size + _ENTRY.size * len(parts))
    for kind, arch, content in parts:
        header += _ENTRY.pack(kind, arch, start + len(data), len(content))
        data += content.ljust(_aligned(len(content)), b"\0")
    return bytes(header).ljust(start, b"\0") + bytes(data)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
