"""Write ``golden_payload.bin``, the payload that the Python and the C++ reader both have to read.

The file changes with the format's version, or with a new code in it. ``golden_payload_1.bin`` and
``golden_payload_2.bin`` are how versions 1 and 2 wrote it.
Run: ``python tests/data/write_golden_payload.py``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from aoti_plugins.payload import (
    UNBOUNDED,
    ArtifactKind,
    ConstantKind,
    ConstantRef,
    KernelRef,
    LibraryRef,
    Payload,
    PayloadFlag,
    StorageRef,
    TargetArtifact,
    ValueKind,
    ValueSpec,
    encode,
)
from aoti_plugins.payload.signatures import PayloadSignature

PATH = Path(__file__).with_name("golden_payload.bin")

GOLDEN = Payload(
    device="cpu",
    method="forward",
    built_with=(
        ("torch", "2.13.0"),
        ("executorch", "1.5.1"),
        ("aoti_plugins", "0.1.0"),
        ("über", ""),
    ),
    targets=(
        TargetArtifact(
            name="x86_64-avx2",
            machine="x86_64",
            features=("avx2", "fma"),
            artifact_kind=ArtifactKind.SHARED_OBJECT,
            artifact_key="0123_so_blob",
            artifact_nbytes=123456,
            artifact_sha256=bytes(range(32)),
            libraries=(
                LibraryRef("libkernels.so.2", "2.1", "their-hooks"),
                LibraryRef("libmore.so", "", ""),
            ),
            symbols=("aoti_torch_cpu_mm_out", "aoti_torch_empty_strided", "their_kernel"),
            kernels=(
                KernelRef(
                    "cpp_fused_relu_0:0",
                    ("aten.relu.default", "aten.add.Tensor"),
                    ("layers.0.act (ReLU)",),
                    ("model/net.py:12 in forward: return self.act(x + y)", "more/net.py:3"),
                    2**40,
                    24,
                    0,
                ),
                KernelRef("aoti_torch_cpu_mm_out:1", flops=2**33),
            ),
        ),
        TargetArtifact(
            name="aarch64",
            machine="aarch64",
            features=(),
            artifact_kind=ArtifactKind.SHARED_OBJECT,
            artifact_key="4567_so_blob",
            artifact_nbytes=2**40,
            artifact_sha256=bytes([255]) * 32,
        ),
    ),
    storages=(
        StorageRef("89ab_weights_blob", 96, bytes(range(100, 132))),
        StorageRef("empty", 0, hashlib.sha256(b"").digest()),
        StorageRef("half", 6, bytes([6]) * 32),
    ),
    constants=(
        ConstantRef("layer.weight", 0, 6, ConstantKind.PARAMETER, (4, 6), (6, 1), 0),
        ConstantRef("layer.weight_t", 0, 6, ConstantKind.BUFFER, (2, 3), (1, 6), 4),
        ConstantRef("cache", 0, 4, ConstantKind.MUTABLE_BUFFER, (), (), 11),
        ConstantRef("nothing", 1, 15, ConstantKind.TENSOR, (0, 5), (5, 1), 0),
        ConstantRef("broadcast", 2, 5, ConstantKind.TENSOR, (7, 3), (0, 1), 0),
        ConstantRef("position", 0, 4, ConstantKind.OWN_BUFFER, (), (), 10),
    ),
    inputs=(
        ValueSpec(ValueKind.TENSOR, 6, ((1, 1), (3, 3), (1, 512), (0, UNBOUNDED)), (0, 2, 3, 1)),
        ValueSpec(ValueKind.TENSOR, 11),
        ValueSpec(ValueKind.INT, 255),
        ValueSpec(ValueKind.FLOAT, 255),
        ValueSpec(ValueKind.BOOL, 255),
        ValueSpec(ValueKind.NONE, 255),
    ),
    outputs=(
        ValueSpec(ValueKind.TENSOR, 15, ((2, 8),), (0,)),
        ValueSpec(ValueKind.TENSOR, 4, ((0, 0),), (0,)),
    ),
    flags=PayloadFlag.TF32_CONVOLUTION,
    signatures=(
        PayloadSignature(bytes([1]) * 32, bytes(range(64))),  # of nobody: that is not read here
        PayloadSignature(bytes([2]) * 32, bytes([7]) * 64),
    ),
)

if __name__ == "__main__":
    PATH.write_bytes(encode(GOLDEN))
    print(f"{PATH}: {PATH.stat().st_size} bytes")
