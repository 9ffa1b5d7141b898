"""Write a program of ExecuTorch's own CUDA backend, around a stand-in's blob, for our tests.

Run as ``python make_upstream_program.py BLOB OUTPUT``. A method for each generation: ``named``,
``keyed`` and ``listed``; and ``again``, which has the buffers of ``listed``. The backend is a small
one of that name: upstream's own needs a GPU. Beside OUTPUT go ``stays_IO.pte``, programs whose
inputs and outputs stay on the GPU: I and O say whether ExecuTorch plans memory for them (1) or the
caller gives it (0).
"""

from __future__ import annotations

import itertools
import struct
import sys
from pathlib import Path
from typing import final

import torch
from executorch.backends.cuda.cuda_weight_collector import (
    CudaWeightEntry,
    encode_cuda_weight_metadata,
)
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

BLOB = Path(sys.argv[1]).read_bytes()
OUTPUT = Path(sys.argv[2])

SCALE = struct.pack("<3f", 1, 2, 3)
PACKED = b"".join(piece.ljust(64, b"\0") for piece in (SCALE, struct.pack("<q", 0), bytes(8)))


def weight(
    fqn: str, dtype: int, device: int, nbytes: int, sizes: tuple[int, ...]
) -> CudaWeightEntry:
    """One entry of the list of weights, contiguous and without an offset."""
    key = f"cuda_fqn_weight:{'cuda' if device else 'cpu'}:{fqn}"
    return CudaWeightEntry(fqn, key, nbytes, dtype, device, 0, sizes, tuple(1 for _ in sizes))


def listed(store: NamedDataStore) -> bytes:
    """As executorch 1.5, with its own writer."""
    store.add_named_data("d_so_blob", BLOB, alignment=1)
    store.add_named_data("cuda_fqn_weight:cuda:layer.scale", SCALE, alignment=1)
    store.add_named_data("cuda_fqn_weight:cuda:calls", bytes(8), alignment=1)
    store.add_named_data("cuda_fqn_weight:cpu:start", bytes(8), alignment=1)
    entries = [
        weight("layer.scale", 6, 1, 12, (3,)),
        weight("calls", 4, 1, 8, ()),
        weight("start", 4, 0, 8, ()),
    ]
    return encode_cuda_weight_metadata("d_so_blob", entries)


def packed(store: NamedDataStore, name: str) -> None:
    """As before: all constants in one blob."""
    store.add_named_data(f"{name}_so_blob", BLOB, alignment=1)
    store.add_named_data(f"{name}_weights_blob", PACKED, alignment=1)


@final
class CudaBackend(BackendDetails):
    """Stores the stand-in whatever it is given."""

    @staticmethod
    def preprocess(edge_program, compile_specs):  # noqa: D102
        store = NamedDataStore()
        (method,) = (spec.value.decode() for spec in compile_specs if spec.key == "method_name")
        if method == "named":
            packed(store, method)
            processed = b""
        elif method == "keyed":
            packed(store, "digest")
            processed = b"digest_so_blob\ndigest_weights_blob"
        else:
            processed = listed(store)
        return PreprocessResult(processed, {}, store.get_named_data_store_output())


class EverythingPartitioner(Partitioner):
    """Gives every node to the delegate."""

    def __init__(self, method: str, device: str = "") -> None:
        specs = [CompileSpec("method_name", method.encode()), CompileSpec("platform", b"linux")]
        if device:
            specs.append(CompileSpec("target_device", device.encode()))
        self.delegation = DelegationSpec("CudaBackend", specs)

    def partition(self, exported_program) -> PartitionResult:  # noqa: D102
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                node.meta["delegation_tag"] = "all"
        return PartitionResult(exported_program, {"all": self.delegation})


class Model(torch.nn.Module):
    """Any model with one [2, 3] input and output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return x + x


names = ("named", "keyed", "listed", "again")
programs = {name: torch.export.export(Model(), (torch.zeros(2, 3),)) for name in names}
edge = to_edge_transform_and_lower(
    programs,
    partitioner={name: [EverythingPartitioner(name)] for name in names},
    compile_config=EdgeCompileConfig(_check_ir_validity=False),
)
OUTPUT.write_bytes(edge.to_executorch().buffer)


STAYS = PropagateDeviceConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)
for inputs, outputs in itertools.product((0, 1), repeat=2):
    stays = to_edge_transform_and_lower(
        torch.export.export(Model(), (torch.zeros(2, 3),)),
        partitioner=[EverythingPartitioner("forward", "cuda:0")],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    config = ExecutorchBackendConfig(
        propagate_device_config=STAYS,
        memory_planning_pass=MemoryPlanningPass(
            alloc_graph_input=bool(inputs), alloc_graph_output=bool(outputs)
        ),
    )
    name = f"stays_{inputs}{outputs}.pte"
    OUTPUT.with_name(name).write_bytes(stays.to_executorch(config).buffer)
