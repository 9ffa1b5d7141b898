"""Time of matrix products of the CUDA runtime on this machine's GPU, against PyTorch's own.

``mm``, ``addmm`` and ``bmm`` in bfloat16 and float16, each as a program with dynamic sizes and one
for a single row, which no dynamic size may be, call the runtime's shims over cuBLASLt. The GPU
spins until the host has sent all calls of a round, so the time is the GPU's alone; the two sides
take turns, and the median round counts.

    python benchmarks/cuda_matmul.py
    python benchmarks/cuda_matmul.py addmm:float16 mm:bfloat16 --output some.json   # in this order

Programs that are in ``--folder`` already are not lowered again; lowering needs no GPU
(``--only-lower``).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import multiprocessing
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import environment
import torch
from gpu_times import compare

RESULTS = Path(__file__).parent / "results" / "cuda_matmul.json"
OPS = ("mm", "addmm", "bmm")
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
LARGEST, BATCH = 11008, 4
SHAPES = [
    *[(rows, 4096, 4096) for rows in (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)],
    (1, 11008, 4096),
    (1, 4096, 11008),
    (128, 11008, 4096),
    (512, 11008, 4096),
    (2048, 4096, 11008),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (8192, 1024, 8192),
    (8192, 8192, 8192),
]
"""Rows, columns and inner size."""


class Product(torch.nn.Module):
    """One product of the inputs."""

    def __init__(self, op: str) -> None:
        super().__init__()
        self._op = getattr(torch, op)

    def forward(self, *operands: torch.Tensor) -> torch.Tensor:
        """``op(*operands)``."""
        return self._op(*operands)


def operands(op: str, dtype: torch.dtype, shape: tuple[int, int, int], device: str) -> Any:
    """Random operands of a product of rows, columns and inner size."""
    rows, columns, inner = shape
    batch = [BATCH] if op == "bmm" else []
    sizes = [[columns]] if op == "addmm" else []
    sizes += [[*batch, rows, inner], [*batch, inner, columns]]
    return tuple(torch.randn(size, dtype=dtype, device=device) for size in sizes)


def lower(op: str, dtype: str, one_row: bool, path: Path, target: str) -> None:
    """Write the program of a product whose sizes are free, but for the rows where there is one."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CudaPartitioner

    rows, columns, inner = (
        torch.export.Dim(name, max=LARGEST) for name in ("rows", "columns", "inner")
    )
    rows = None if one_row else rows
    offset = 1 if op == "bmm" else 0
    bias = [{0: columns}] if op == "addmm" else []
    dynamic = [*bias, {offset: rows, offset + 1: inner}, {offset: inner, offset + 1: columns}]
    example = operands(op, DTYPES[dtype], (1 if one_row else 96, 64, 32), "cpu")
    exported = torch.export.export(Product(op), example, dynamic_shapes=(tuple(dynamic),))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(target=target)])
    path.write_bytes(edge.to_executorch().buffer)


def path_of(folder: Path, op: str, dtype: str, one_row: bool) -> Path:
    """Where a program is."""
    return folder / f"{op}_{dtype}{'_one_row' if one_row else ''}.pte"


def lower_all(folder: Path, target: str) -> None:
    """Lower the programs that are not there yet, each in a process."""
    # Spawned: a process that was forked after CUDA was used cannot lower.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = [
            pool.submit(lower, *one, path_of(folder, *one), target)
            for one in itertools.product(OPS, DTYPES, (False, True))
            if not path_of(folder, *one).exists()
        ]
        for future in waiting:
            future.result()


def measure(op: str, dtype: str, folder: Path) -> dict[str, Any]:
    """Times of all shapes of one product."""
    from aoti_plugins.runtime import Program

    found: dict[str, Any] = {}
    product = getattr(torch, op)
    with contextlib.ExitStack() as stack:
        methods = {
            one_row: stack.enter_context(
                stack.enter_context(Program(path_of(folder, op, dtype, one_row))).method()
            )
            for one_row in (False, True)
        }
        for shape in SHAPES:
            method = methods[shape[0] == 1]
            given = operands(op, DTYPES[dtype], shape, "cuda")
            expected = product(*given)
            result = method(*given, copy=False)[0]
            error = ((result.double() - expected.double()).norm() / expected.double().norm()).item()
            times = compare(
                lambda given=given, method=method: method(*given, copy=False),
                lambda given=given, out=expected: product(*given, out=out),
            )
            found["x".join(map(str, shape))] = {**times, "difference": float(f"{error:.1e}")}
    return found


def summary(products: dict[str, Any]) -> dict[str, Any]:
    """Geometric mean and the slowest of PyTorch's time divided by ours, by program and in all."""
    speeds = {
        name: {shape: times["speed"] for shape, times in shapes.items()}
        for name, shapes in products.items()
    }
    every = [speed for shapes in speeds.values() for speed in shapes.values()]
    found = {
        name: {
            "mean": round(math.exp(statistics.fmean(map(math.log, shapes.values()))), 3),
            "slowest": min(shapes.values()),
            "slowest shape": min(shapes, key=lambda shape, of=shapes: of[shape]),
        }
        for name, shapes in speeds.items()
    }
    found["all"] = {
        "mean": round(math.exp(statistics.fmean(map(math.log, every))), 3),
        "slowest": min(every),
        "below 0.97": sum(speed < 0.97 for speed in every),
        "of": len(every),
    }
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [f"{op}:{dtype}" for op, dtype in itertools.product(OPS, DTYPES)]
    parser.add_argument(
        "products", nargs="*", help=f"what to time, in this order: {', '.join(every)}; all"
    )
    parser.add_argument("--target", default="h100", help="name of this machine's GPU as a target")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, help="where programs go; a temporary one")
    parser.add_argument("--only-lower", action="store_true", help="write the programs to --folder")
    chosen = parser.parse_args()
    unknown = set(chosen.products) - set(every)
    if unknown:
        parser.error(f"unknown products: {', '.join(sorted(unknown))}")
    if chosen.products and chosen.output == RESULTS:
        parser.error("the results of some products need a file of their own (--output)")
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        lower_all(folder, chosen.target)
        if chosen.only_lower:
            return
        products: dict[str, Any] = {}
        for op, dtype in (one.split(":") for one in chosen.products or every):
            products[f"{op} {dtype}"] = measure(op, dtype, folder)
            environment.save(chosen.output, {"summary": summary(products), "products": products})
    for name, shapes in products.items():
        for shape, times in shapes.items():
            print(f"{name:16} {shape:16} {times}")
    for name, found in summary(products).items():
        print(f"{name:16} {found}")


if __name__ == "__main__":
    main()
