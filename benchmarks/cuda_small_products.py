"""Time of products with small weights on this GPU, in our forms and those of upstream's programs.

Each program multiplies one input with several weights, more than the GPU's cache holds, and runs
with CUDA graphs. The time is that of one product, beside PyTorch's for weights of 16 bits, which is
cuBLASLt's, and the share of the bandwidth at which ``torch.sum`` reads 2 GiB in the same run that
the bytes of the weight need. Lowering needs no GPU (``--only-lower``).

    python benchmarks/cuda_small_products.py --target h100
    python benchmarks/cuda_small_products.py int4_plain_1x2048x8192     # form, rows, weight
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import environment
import gpu_times
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from executorch.extension.llm.export.mx import ExportableMXConfig
    from executorch.extension.llm.export.nvfp4 import ExportableNVFP4Config
    from torchao.quantization import Float8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

RESULTS = Path(__file__).parent / "results" / "cuda_small_products.json"
PLAIN_FORMS = ("int4_plain", "int5_plain", "int6_plain", "int8_plain")
OWN_FORMS = ("int4_32", "int4_128", "int8_row")
FLOAT_FORMS = {
    "float8": (8, 0, Float8WeightOnlyConfig),
    "mxfp8": (8, 32, ExportableMXConfig),
    "nvfp4": (4, 16, ExportableNVFP4Config),
}
"""Bits, weights that have a scale of a byte (none: a float32 for a row), and who makes them."""
PLAIN_SHAPES = [(2048, 2048), (8192, 2048), (2048, 8192), (14336, 4096)]
OWN_SHAPES = [(2048, 2048), (4096, 4096), (2048, 8192), (28672, 4096), (4096, 14336)]
"""Rows of the weight, and their elements."""
PLAIN_ROWS, OWN_ROWS = (1, 4), (1, 8, 64, 512, 2048)
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
    if form == "int8_plain":
        scale = torch.full((n, groups), 1e-3, dtype=torch.bfloat16)
        return [codes(k, torch.int8), scale, codes(groups, torch.int8)]
    if form == "int6_plain":
        return [codes(k // 2), codes(k // 4), codes(groups, torch.int8), steps()]
    high = [codes(k // 8)] if form == "int5_plain" else []
    return [codes(k // 2), *high, codes(groups), steps(), codes(groups), steps()]


def group_size_of(form: str) -> int:
    """Weights of a group, as upstream has them."""
    return 16 if form == "int6_plain" else 32


class PlainProducts(torch.nn.Module):
    """One input times several weights in a form of upstream's."""

    def __init__(self, form: str, n: int, k: int) -> None:
        super().__init__()
        self.group_size = group_size_of(form)
        self.op = getattr(torch.ops.executorch_cuda, f"{form}_mm").default
        self.count = count_of(form, n, k)
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


class OwnProducts(torch.nn.Module):
    """Inputs times weights that torchao has made small; products of one input would become one."""

    def __init__(self, form: str, n: int, k: int) -> None:
        super().__init__()
        count = range(count_of(form, n, k))
        linears = (torch.nn.Linear(k, n, bias=False, dtype=torch.bfloat16) for _ in count)
        self.linears = torch.nn.ModuleList(linears)
        quantize_(self.linears, config_of(form))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The products ``[m, n]`` of ``x[i]``."""
        return tuple(linear(x[i]) for i, linear in enumerate(self.linears))


def config_of(form: str) -> Any:
    """What makes weights of a form of ours."""
    if form in FLOAT_FORMS:
        return FLOAT_FORMS[form][2]()
    bits, groups = form.removeprefix("int").split("_")
    granularity = PerAxis(0) if groups == "row" else PerGroup(int(groups))
    return IntxWeightOnlyConfig(torch.int4 if bits == "4" else torch.int8, granularity)


def sizes_of(name: str) -> tuple[str, int, int, int]:
    """Form, rows, and the weight's sizes of a name such as ``int4_plain_1x2048x8192``."""
    form, sizes = name.rsplit("_", 1)
    m, n, k = map(int, sizes.split("x"))
    return form, m, n, k


def products_of(name: str) -> torch.nn.Module:
    """The model of a name."""
    form, _, n, k = sizes_of(name)
    if form not in PLAIN_FORMS:
        return OwnProducts(form, n, k)
    import executorch.backends.cuda.quantize_op_dispatch  # noqa: F401  registers the ops

    return PlainProducts(form, n, k)


def input_of(name: str) -> torch.Tensor:
    """The rows of a name, ``[m, k]`` in upstream's forms and ``[products, m, k]`` in ours."""
    form, m, n, k = sizes_of(name)
    sizes = [m, k] if form in PLAIN_FORMS else [count_of(form, n, k), m, k]
    return torch.randn(sizes, dtype=torch.bfloat16)


def bytes_of(form: str, n: int, k: int) -> int:
    """Of one weight, with its scales and zeros."""
    if form in PLAIN_FORMS:
        return sum(part.nbytes for part in planes(form, n, k))
    if form in FLOAT_FORMS:
        width, group, _ = FLOAT_FORMS[form]
        return n * k * width // 8 + (n * k // group if group else 4 * n)
    bits, groups = form.removeprefix("int").split("_")
    return n * k * int(bits) // 8 + 2 * n * (1 if groups == "row" else k // int(groups))


def count_of(form: str, n: int, k: int) -> int:
    """Weights of a program."""
    return max(4, COLD_NBYTES // bytes_of(form, n, k))


def program_of(name: str) -> str:
    """The file of a name: one for all numbers of rows in forms of ours."""
    form, _, n, k = sizes_of(name)
    return f"{name}.pte" if form in PLAIN_FORMS else f"{form}_{n}x{k}.pte"


def lower(name: str, target: str, path: str) -> None:
    """Write a program; run in a process that sees no GPU."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CudaPartitioner

    form, _, n, k = sizes_of(name)
    if form in PLAIN_FORMS:
        exported = torch.export.export(products_of(name), (input_of(name),))
    else:
        rows = torch.export.Dim("rows", min=1, max=max(OWN_ROWS))
        x = torch.randn(count_of(form, n, k), 16, k, dtype=torch.bfloat16)
        exported = torch.export.export(products_of(name), (x,), dynamic_shapes=({1: rows},))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(target=target)])
    Path(path).write_bytes(edge.to_executorch().buffer)


def lower_hidden(name: str, target: str, path: Path) -> None:
    """Lower in a process that sees no GPU, unless the program is there."""
    if not path.exists():
        task = ["--target", target, "--task", name, str(path)]
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run([sys.executable, __file__, *task], env=hidden, check=True)


def torch_us(name: str) -> float:
    """Microseconds of PyTorch's product with a weight of 16 bits, in a CUDA graph."""
    _, m, n, k = sizes_of(name)
    count = max(2, COLD_NBYTES // (n * k * 2))
    rows = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    for x, weight in zip(rows[:2], weights, strict=False):
        torch.nn.functional.linear(x, weight)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [torch.nn.functional.linear(x, one) for x, one in zip(rows, weights, strict=True)]
    us = gpu_times.gpu_us(graph.replay, 20) / len(kept)
    return float(us)


def measure(name: str, path: Path, bytes_a_us: float) -> dict[str, float]:
    """Microseconds of one product, PyTorch's, and the share of the bandwidth."""
    from aoti_plugins.runtime import Program

    form, _, n, k = sizes_of(name)
    given = input_of(name).cuda()
    options = {"AotiCudaBackend": {"cuda_graphs": True}}
    with Program(path) as program, program.method(options=options) as method:
        for _ in range(4):
            method(given, copy=False)
        us = gpu_times.gpu_us(lambda: method(given, copy=False), 20)
    us /= count_of(form, n, k)
    other = torch_us(name)
    return {
        "us": round(us, 2),
        "torch_us": round(other, 2),
        "speed": round(other / us, 2),
        "share": round(bytes_of(form, n, k) / bytes_a_us / us, 3),
    }


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
    every = [
        f"{form}_{m}x{n}x{k}"
        for forms, rows, shapes in (
            ((*OWN_FORMS, *FLOAT_FORMS), OWN_ROWS, OWN_SHAPES),
            (PLAIN_FORMS, PLAIN_ROWS, PLAIN_SHAPES),
        )
        for form in forms
        for n, k in shapes
        for m in rows
    ]
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
        missing = {program_of(name): name for name in chosen.names}
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as pool:
            paths = [folder / file for file in missing]
            list(pool.map(lower_hidden, missing.values(), [chosen.target] * len(paths), paths))
        if chosen.only_lower:
            return None
        bytes_a_us = bandwidth()
        found: dict[str, Any] = {}
        for name in chosen.names:
            found[name] = measure(name, folder / program_of(name), bytes_a_us)
            print(f"{name:24} {found[name]}", flush=True)
            environment.save(chosen.output, {"bytes_a_us": bytes_a_us, "products": found})
    return None


if __name__ == "__main__":
    main()
