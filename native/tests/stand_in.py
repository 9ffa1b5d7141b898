"""A backend of the CPU delegate's name that stores a stand-in for a compiled model.

Programs for the native tests are made with it by ExecuTorch's own lowering, so that neither a
compiler nor the package's lowering is needed.
"""

from __future__ import annotations

import hashlib
import platform
import struct
from collections.abc import Callable
from pathlib import Path
from typing import final

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

from aoti_plugins import payload as p

DATA = {"weights": struct.pack("<4f", -1, 1, 2, 3), "state": struct.pack("<q", 0)}

_blob = b""
_machine = platform.machine()


def use_blob(path: Path, machine: str = _machine) -> None:
    """Take ``tests/fake_model``, built with FAKE_ONE_INPUT for a machine, as the compiled model."""
    global _blob, _machine
    _blob = path.read_bytes()
    _machine = machine


def make_payload(method: str) -> bytes:
    """Describe the stand-in: one [2, 3] float32 input and output, a constant, a mutable buffer."""
    static = p.ValueSpec(p.ValueKind.TENSOR, 6, ((2, 2), (3, 3)), (0, 1))
    target = p.TargetArtifact(
        name="here",
        machine=_machine,
        features=(),
        artifact_kind=p.ArtifactKind.SHARED_OBJECT,
        artifact_key="so_blob",
        artifact_nbytes=len(_blob),
        artifact_sha256=hashlib.sha256(_blob).digest(),
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
        store.add_named_data("so_blob", _blob, alignment=16)
        external = "external" if compile_specs else None
        for key, data in DATA.items():
            tag = external if key == "weights" else None
            store.add_named_data(key, data, alignment=64, external_tag=tag)
        return PreprocessResult(make_payload("forward"), {}, store.get_named_data_store_output())


class StandInPartitioner(Partitioner):
    """Gives the nodes that ``takes`` accepts to the delegate, all by default.

    ``external`` stores the weights in a data file of that name.
    """

    def __init__(
        self,
        takes: Callable[[torch.fx.Node], bool] = lambda node: True,
        *,
        external: bool = False,
    ) -> None:
        self._takes = takes
        self._specs = [CompileSpec("external", b"")] if external else []

    def partition(self, exported_program) -> PartitionResult:  # noqa: D102
        spec = DelegationSpec("AotiCpuBackend", self._specs)
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and self._takes(node):
                node.meta["delegation_tag"] = "all"
        return PartitionResult(exported_program, {"all": spec})
