"""Times of products with weights of few bits on the CPU, in all forms that programs have.

A linear layer without a bias, bfloat16, lowered with ``CpuPartitioner()``, as many threads as there
are processors; the weights are random. Beside them the same product with the weight in bfloat16,
ours and PyTorch's. The fastest of many calls counts, as other processes only ever make one slower;
what a call reads is the bytes of the form over its time.

    python benchmarks/cpu_small_products.py [FORM ...] [--size 4096] [--rows 1 32]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environment
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner
from aoti_plugins.runtime import Program

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import exportable_weights
import small_tables

RESULTS = Path(__file__).parent / "results" / "cpu_small_products.json"
PLAIN = "bfloat16"
EAGER = "bfloat16, PyTorch"
SECONDS = 1.0


def _float8(n: int, k: int, dtype: torch.dtype) -> Any:
    from torchao.quantization import Float8WeightOnlyConfig, quantize_

    linear = nn.Linear(k, n, dtype=dtype).requires_grad_(False)
    quantize_(linear, Float8WeightOnlyConfig())
    return linear.weight


FORMS: dict[str, Callable[[int, int, torch.dtype], Any]] = {
    PLAIN: lambda n, k, dtype: torch.randn(n, k).to(dtype),
    **small_tables.TABLES,
    "float8": _float8,
}


def time_of(call: Callable[[], Any]) -> float:
    """Milliseconds of the fastest call."""
    call()
    found, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return round(min(found) * 1e3, 3)


def measure(form: str, size: int, rows: int) -> dict[str, float]:
    """One product: milliseconds, and gigabytes of the program that a second reads."""
    torch.manual_seed(0)
    weight = FORMS[form](size, size, torch.bfloat16)
    x = torch.randn(rows, size).bfloat16()
    module = exportable_weights.OneProduct(weight).eval()
    exported = torch.export.export(module, (x,))
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    buffer = bytes(lowered.to_executorch().buffer)
    with Program(buffer) as program:
        found = {"ms": time_of(lambda: program(x))}
    found["gb_per_s"] = round(len(buffer) / found["ms"] / 1e6, 2)
    if form == PLAIN:
        with torch.no_grad():
            found["eager_ms"] = time_of(lambda: module(x))
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forms", nargs="*", help=f"of {', '.join(FORMS)}; all")
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the weight")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 32], help="of the other factor")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # torchao's, about itself
    found: dict[str, Any] = {}
    print(f"{'':32}" + "".join(f"{f'{rows} rows, ms':>14}{'GB/s':>8}" for rows in chosen.rows))
    for form in chosen.forms or FORMS:
        times = {str(rows): measure(form, chosen.size, rows) for rows in chosen.rows}
        found[form] = times
        cells = [f"{one['ms']:14.2f}{one['gb_per_s']:8.1f}" for one in times.values()]
        print(f"{form:32}" + "".join(cells), flush=True)
        if form == PLAIN:
            eager = [f"{one['eager_ms']:14.2f}{'':8}" for one in times.values()]
            print(f"{EAGER:32}" + "".join(eager), flush=True)
    environment.save(chosen.output, {"size": chosen.size, "forms": found})


if __name__ == "__main__":
    main()
