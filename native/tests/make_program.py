"""Write a program for runner_test: two methods whose delegate is a stand-in for a compiled model.

Run as ``python make_program.py BLOB OUTPUT SOURCE_ROOT``. It uses ExecuTorch's own lowering with a
small backend of the delegate's name, so that neither a compiler nor the package's lowering is
needed.
"""

from __future__ import annotations

import hashlib
import platform
import struct
import sys
from pathlib import Path
from typing import final

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

BLOB = Path(sys.argv[1])
OUTPUT = Path(sys.argv[2])
sys.path.insert(0, sys.argv[3])

from aoti_plugins import payload as p  # noqa: E402

DATA = {"weights": struct.pack("<4f", -1, 1, 2, 3), "state": struct.pack("<q", 0)}


def make_payload(method: str) -> bytes:
    """Describe tests/fake_model, built with FAKE_ONE_INPUT."""
    blob = BLOB.read_bytes()
    static = p.ValueSpec(p.ValueKind.TENSOR, 6, ((2, 2), (3, 3)), (0, 1))
    target = p.TargetArtifact(
        name="here",
        machine=platform.machine(),
        features=(),
        artifact_kind=p.ArtifactKind.SHARED_OBJECT,
        artifact_key="so_blob",
        artifact_nbytes=len(blob),
        artifact_sha256=hashlib.sha256(blob).digest(),
        libraries=(),
        symbols=("aoti_torch_empty_strided",),
    )
    constants = (
        p.ConstantRef("layer.scale", 0, 6, p.ConstantKind.PARAMETER, (3,), (1,), 1),
        p.ConstantRef("calls", 1, 4, p.ConstantKind.MUTABLE_BUFFER, (), (), 0),
    )
    return p.encode(
        p.Payload(
            device="cpu",
            method=method,
            built_with=(("torch", torch.__version__),),
            targets=(target,),
            storages=tuple(
                p.StorageRef(k, len(d), hashlib.sha256(d).digest()) for k, d in DATA.items()
            ),
            constants=constants,
            inputs=(static,),
            outputs=(static,),
        )
    )


@final
class AotiCpuBackend(BackendDetails):
    """Stores the stand-in whatever it is given."""

    @staticmethod
    def preprocess(edge_program, compile_specs):  # noqa: D102
        store = NamedDataStore()
        store.add_named_data("so_blob", BLOB.read_bytes(), alignment=16)
        for key, data in DATA.items():
            store.add_named_data(key, data, alignment=64)
        return PreprocessResult(make_payload("forward"), {}, store.get_named_data_store_output())


class EverythingPartitioner(Partitioner):
    """Gives every node to the delegate."""

    def partition(self, exported_program) -> PartitionResult:  # noqa: D102
        spec = DelegationSpec("AotiCpuBackend", [])
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                node.meta["delegation_tag"] = "all"
        return PartitionResult(exported_program, {"all": spec})


class Model(torch.nn.Module):
    """Any model with one [2, 3] input and output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return x + x


example = (torch.zeros(2, 3),)
programs = {name: torch.export.export(Model(), example) for name in ("forward", "again")}
edge = to_edge_transform_and_lower(
    programs,
    partitioner={name: [EverythingPartitioner()] for name in programs},
    compile_config=EdgeCompileConfig(_check_ir_validity=False),
)
OUTPUT.write_bytes(edge.to_executorch().buffer)
