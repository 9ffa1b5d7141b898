"""Lower a model for ExecuTorch's own CUDA backend, in a process of its own.

Run as ``python upstream_lowering.py MODEL GENERATION FOLDER``. Writes ``model.pte``, the ``.ptd``
files, and ``calls.pt``: for each method the inputs of some calls with what eager PyTorch gives for
them, all in the order of the calls. A form that upstream_small_weights.py has is a method for each
number of rows; its calls have the exact result in float64, and that of a weight in bfloat16.

Generations are what the backend stores for a delegate: ``listed``, as executorch 1.5; ``keyed``,
two digests and all weights in one blob; ``named``, keys made of the method's name.
"""

from __future__ import annotations

import copy
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from executorch.backends.aoti.aoti_backend import AotiBackend
from executorch.backends.cuda.cuda_backend import CudaBackend
from executorch.backends.cuda.cuda_partitioner import CudaPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

GENERATIONS = ("listed", "keyed", "named")
BLOB_TAG = "aoti_cuda_blob"


class Mlp(torch.nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.second = torch.nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[8, 64]`` to ``[8, 32]``."""
        return self.second(torch.relu(self.first(x)))


class Counter(torch.nn.Module):
    """Counts in a buffer; were its first values equal, Inductor would take them as given."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(16))
        self.register_buffer("calls", torch.arange(16.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` scaled, plus the buffer."""
        self.calls.add_(1)
        return x * self.scale + self.calls


class Look(torch.nn.Module):
    """Reads the buffer of a counter."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.register_buffer("calls", counter.calls)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` minus the counter's buffer."""
        return x - self.calls


def modules(name: str) -> dict[str, torch.nn.Module]:
    """The methods of a model, in the order in which they are called."""
    torch.manual_seed(0)
    if name == "mlp":
        return {"forward": Mlp().eval()}
    counter = Counter().eval()
    return {"forward": counter} if name == "counter" else {"count": counter, "look": Look(counter)}


def calls_of(methods: dict[str, torch.nn.Module], x: torch.Tensor) -> list[tuple[str, Any, Any]]:
    """Name, input and result of three rounds of calls."""
    calls = []
    with torch.no_grad():
        for scale in (1.0, -0.5, 2.0):
            for name, module in methods.items():
                calls.append((name, x * scale, module(x * scale)))
    return calls


def small_weight_calls(form: str) -> tuple[dict[str, torch.nn.Module], list[Any]]:
    """The methods of a layer with small weights, and a call of each."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from upstream_small_weights import small_weight

    weight = small_weight(form)
    methods: dict[str, torch.nn.Module] = {}
    calls = []
    for rows in weight.rows:
        methods[f"rows_{rows}"] = weight.layer
        x = torch.randn(rows, weight.values.size(1), dtype=torch.bfloat16)
        usual = x.double() @ weight.values.bfloat16().double().t()
        calls.append((f"rows_{rows}", x, x.double() @ weight.values.t(), usual.bfloat16()))
    return methods, calls


def keyed(cls: Any, program: Any, specs: Any) -> PreprocessResult:
    """What the class that both of upstream's AOTInductor backends have does by itself."""
    lower: Callable[..., PreprocessResult] = AotiBackend.preprocess.__func__  # type: ignore[attr-defined]
    return lower(cls, program, specs)


def named(cls: Any, program: Any, specs: Any) -> PreprocessResult:
    """The same under the names that the first generation had."""
    result = keyed(cls, program, specs)
    output = result.data_store_output
    so_key, weights_key = result.processed_bytes.decode().split("\n")
    method = cls.method_name_from_compile_specs(specs)
    store = NamedDataStore()
    blob = output.buffers[output.pte_data[so_key].buffer_index]
    weights = output.buffers[output.external_data[BLOB_TAG][weights_key].buffer_index]
    store.add_named_data(f"{method}_so_blob", blob, 1, None)
    store.add_named_data(f"{method}_weights_blob", weights, 1, BLOB_TAG)
    return PreprocessResult(
        processed_bytes=b"",
        debug_handle_map={},
        data_store_output=store.get_named_data_store_output(),
    )


def choose_generation(generation: str) -> None:
    """Change upstream's backend to what it was."""
    if generation != "listed":
        CudaBackend._weights_format = classmethod(lambda cls, specs: "binary_blob")
        CudaBackend.preprocess = classmethod({"keyed": keyed, "named": named}[generation])
        CudaBackend.preprocess_multimethod = classmethod(
            BackendDetails.preprocess_multimethod.__func__  # type: ignore[attr-defined]
        )


def find_toolkit() -> None:
    """Tell Inductor where the CUDA headers are; without nvcc it can make no fat binaries."""
    if "CUDA_HOME" not in os.environ:
        from aoti_plugins.cuda.toolkit import include_dir

        os.environ["CUDA_HOME"] = str(include_dir().parent)
    if shutil.which("nvcc") is None and not Path(os.environ["CUDA_HOME"], "bin/nvcc").exists():
        CudaBackend._setup_cuda_environment_for_fatbin = staticmethod(lambda: False)


def main() -> None:
    """Lower and save."""
    model, generation, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if model in ("mlp", "counter", "both"):
        methods = modules(model)
        x = torch.randn(8, 64 if model == "mlp" else 16)
        calls: list[Any] = calls_of(copy.deepcopy(methods), x)  # which leaves the state as it is
    else:
        methods, calls = small_weight_calls(model)
    exported = {
        call[0]: torch.export.export(methods[call[0]], (call[1],), strict=True)
        for call in calls[: len(methods)]
    }
    find_toolkit()
    choose_generation(generation)
    partitioner = {
        name: [CudaPartitioner([CudaBackend.generate_method_name_compile_spec(name)])]
        for name in methods
    }
    program = to_edge_transform_and_lower(
        exported,
        partitioner=partitioner,
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    ).to_executorch()
    (folder / "model.pte").write_bytes(program.buffer)
    program.write_tensor_data_to_file(str(folder))
    torch.save(calls, folder / "calls.pt")


if __name__ == "__main__":
    main()
