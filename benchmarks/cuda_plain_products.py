"""Time of products with weights in the forms of ExecuTorch's own CUDA programs, on this GPU.

Each program multiplies one input with several weights, more than the GPU's cache holds, and runs
with CUDA graphs; the time is that of one product, against the bytes of its weight over the
bandwidth at which ``torch.sum`` reads 2 GiB in the same run. Lowering needs no GPU
(``--only-lower``).

    python benchmarks/cuda_plain_products.py --target h200
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import environment
import gpu_times
import torch

RESULTS = Path(__file__).parent / "results" / "cuda_plain_products.json"
FORMS = ("int4", "int5", "int6", "int8")
SHAPES = [(2048, 2048), (8192, 2048), (2048, 8192), (14336, 4096)]
"""Rows of the weight, and their elements."""
ROWS = (1, 4)
COLD_NBYTES = 128 << 20
"""More than a cache; what is read again is not in it any more."""


def planes(form: str, n: int, k: int) -> list[torch.Tensor]:
    """Random bytes in the sizes of a weight's parts, as the op takes them."""
    group_size = group_size_of(form)

    def codes(columns: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
        return torch.randint(0, 100, (n, columns), dtype=dtype)

    def steps() -> torch.Tensor:
        return torch.full((n, k // 256), 1e-4, dtype=torch.float16)

    groups = k // group_size
    if form == "int8":
        scale = torch.full((n, groups), 1e-3, dtype=torch.bfloat16)
        return [codes(k, torch.int8), scale, codes(groups, torch.int8)]
    if form == "int6":
        return [codes(k // 2), codes(k // 4), codes(groups, torch.int8), steps()]
    high = [codes(k // 8)] if form == "int5" else []
    return [codes(k // 2), *high, codes(groups), steps(), codes(groups), steps()]


def group_size_of(form: str) -> int:
    """Weights of a group, as upstream has them."""
    return 16 if form == "int6" else 32


class Products(torch.nn.Module):
    """One input times several weights."""

    def __init__(self, form: str, n: int, k: int) -> None:
        super().__init__()
        self.group_size = group_size_of(form)
        self.op = getattr(torch.ops.executorch_cuda, f"{form}_plain_mm").default
        nbytes = sum(part.nbytes for part in planes(form, n, k))
        self.count = max(4, COLD_NBYTES // nbytes)
        for i in range(self.count):
            for j, part in enumerate(planes(form, n, k)):
                self.register_buffer(f"weight_{i}_{j}", part)
        self.parts = len(planes(form, n, k))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The products ``[m, n]``."""
        weights = [
            [getattr(self, f"weight_{i}_{j}") for j in range(self.parts)] for i in range(self.count)
        ]
        return tuple(self.op(x, *weight, self.group_size) for weight in weights)


def products_of(name: str) -> tuple[Products, torch.Tensor]:
    """The model of a name such as ``int4_1x2048x8192``, and its input."""
    import executorch.backends.cuda.quantize_op_dispatch  # noqa: F401  registers the ops

    form, sizes = name.split("_")
    m, n, k = map(int, sizes.split("x"))
    return Products(form, n, k), torch.randn(m, k, dtype=torch.bfloat16)


def lower(name: str, target: str, path: str) -> None:
    """Write a program; run in a process that sees no GPU."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CudaPartitioner

    model, x = products_of(name)
    exported = torch.export.export(model, (x,))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(target=target)])
    Path(path).write_bytes(edge.to_executorch().buffer)


def measure(name: str, path: Path, bytes_a_us: float) -> dict[str, float]:
    """Microseconds of one product, and the share of the bandwidth."""
    from aoti_plugins.runtime import Program

    model, x = products_of(name)
    nbytes = sum(buffer.nbytes for buffer in model.buffers()) / model.count
    given = x.cuda()
    options = {"AotiCudaBackend": {"cuda_graphs": True}}
    with Program(path) as program, program.method(options=options) as method:
        for _ in range(4):
            method(given, copy=False)
        us = gpu_times.gpu_us(lambda: method(given, copy=False), 20) / model.count
    return {"us": round(us, 2), "share": round(nbytes / bytes_a_us / us, 3)}


def bandwidth() -> float:
    """Bytes a microsecond at which ``torch.sum`` reads 2 GiB."""
    data = torch.ones(1 << 29, device="cuda")
    for _ in range(3):
        data.sum()
    return data.nbytes / gpu_times.gpu_us(data.sum, 20)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [f"{form}_{m}x{n}x{k}" for form in FORMS for m in ROWS for n, k in SHAPES]
    parser.add_argument("names", nargs="*", default=every, help="what to time; all")
    parser.add_argument("--target", default="h100", help="name of this machine's GPU as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, help="where programs go; a temporary one")
    parser.add_argument("--only-lower", action="store_true", help="write the programs to --folder")
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.task:
        return lower(chosen.task[0], chosen.target, chosen.task[1])
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in chosen.names:
            path = folder / f"{name}.pte"
            if not path.exists():
                task = ["--target", chosen.target, "--task", name, str(path)]
                hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
                subprocess.run([sys.executable, __file__, *task], env=hidden, check=True)
        if chosen.only_lower:
            return None
        bytes_a_us = bandwidth()
        found: dict[str, Any] = {}
        for name in chosen.names:
            found[name] = measure(name, folder / f"{name}.pte", bytes_a_us)
            print(f"{name:24} {found[name]}", flush=True)
            environment.save(chosen.output, {"bytes_a_us": bytes_a_us, "products": found})
    return None


if __name__ == "__main__":
    main()
