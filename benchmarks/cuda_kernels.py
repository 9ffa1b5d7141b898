"""Time of single ops in programs for this machine's GPU, against PyTorch's own kernels.

Each op is lowered as a model of its own; which kernel runs it, a generated one, a library's or the
runtime's, is the lowering's choice. Sizes are large enough that the GPU's time counts; the times
are the GPU's alone (``gpu_times.py``).

    python benchmarks/cuda_kernels.py [NAMES ...] --output results/cuda_kernels.json

Programs that are in ``--folder`` already are not lowered again.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import environment
import torch
from gpu_times import compare
from torch.nn import functional

RESULTS = Path(__file__).parent / "results" / "cuda_kernels.json"
LIMIT = 1.3
Tensors = tuple[torch.Tensor, ...]
HALF = torch.bfloat16


def some(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers."""
    return torch.randn(sizes).to(dtype)


def places(high: int, *sizes: int) -> torch.Tensor:
    """Random indices below ``high``."""
    return torch.randint(0, high, sizes)


def complex_of(x: torch.Tensor) -> torch.Tensor:
    """Pairs of the last dimension as complex numbers."""
    return torch.view_as_complex(x)


def real_of(x: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs, since programs take and give real ones."""
    return torch.view_as_real(x)


def _int8(*sizes: int) -> torch.Tensor:
    return torch.randint(-128, 128, sizes, dtype=torch.int8)


def _lstm() -> Any:
    torch.manual_seed(0)
    return torch.nn.LSTM(256, 256, batch_first=True).eval()


OPS: dict[str, tuple[Callable[[], Any], Callable[[], Tensors]]] = {
    "sort": (lambda: lambda x: torch.sort(x, -1), lambda: (some(64, 65536),)),
    "sort of integers": (lambda: torch.sort, lambda: (places(1 << 40, 1 << 20),)),
    "argsort of short rows": (lambda: lambda x: torch.argsort(x, -1), lambda: (some(16384, 256),)),
    "topk": (lambda: lambda x: torch.topk(x, 50), lambda: (some(8, 128256),)),
    "topk of experts": (lambda: lambda x: torch.topk(x, 8), lambda: (some(8192, 64, dtype=HALF),)),
    "cumsum": (lambda: lambda x: torch.cumsum(x, -1), lambda: (some(4096, 4096),)),
    "cumsum across": (lambda: lambda x: torch.cumsum(x, 0), lambda: (some(4096, 4096),)),
    "cumprod": (lambda: lambda x: torch.cumprod(x, -1), lambda: (some(4096, 4096),)),
    "cummax": (lambda: lambda x: torch.cummax(x, -1), lambda: (some(1024, 4096),)),
    "logcumsumexp": (lambda: lambda x: torch.logcumsumexp(x, -1), lambda: (some(1024, 4096),)),
    "median": (lambda: lambda x: torch.median(x, -1), lambda: (some(1024, 4096),)),
    "kthvalue": (lambda: lambda x: torch.kthvalue(x, 100, -1), lambda: (some(1024, 4096),)),
    "mode": (lambda: lambda x: torch.mode(x, -1), lambda: (places(100, 1024, 1024),)),
    "histc": (lambda: lambda x: torch.histc(x, 256, -3.0, 3.0), lambda: (some(1 << 22),)),
    "searchsorted": (
        lambda: torch.searchsorted,
        lambda: (some(1 << 16).sort()[0], some(1 << 20)),
    ),
    "scatter": (
        lambda: lambda x, i, s: x.scatter(1, i, s),
        lambda: (some(1024, 8192), places(8192, 1024, 4096), some(1024, 4096)),
    ),
    "scatter_add": (
        lambda: lambda x, i, s: x.scatter_add(1, i, s),
        lambda: (some(1024, 8192), places(8192, 1024, 4096), some(1024, 4096)),
    ),
    "index_put, added": (
        lambda: lambda x, i, s: x.index_put((i,), s, accumulate=True),
        lambda: (some(65536, 256), places(65536, 16384), some(16384, 256)),
    ),
    "index_add": (
        lambda: lambda x, i, s: x.index_add(0, i, s),
        lambda: (some(65536, 256), places(65536, 16384), some(16384, 256)),
    ),
    "gather": (
        lambda: lambda x, i: x.gather(1, i),
        lambda: (some(1024, 8192), places(8192, 1024, 8192)),
    ),
    "embedding_bag": (
        lambda: lambda i, w: functional.embedding_bag(i, w, mode="mean"),
        lambda: (places(100000, 8192, 20), some(100000, 128)),
    ),
    "fft": (
        lambda: lambda x: real_of(torch.fft.fft(complex_of(x))),
        lambda: (some(1024, 4096, 2),),
    ),
    "rfft of frames": (
        lambda: lambda x: real_of(torch.fft.rfft(x)),
        lambda: (some(16384, 400),),
    ),
    "rfft2": (lambda: lambda x: real_of(torch.fft.rfft2(x)), lambda: (some(64, 512, 512),)),
    "irfft": (
        lambda: lambda x: torch.fft.irfft(complex_of(x)),
        lambda: (some(4096, 1025, 2),),
    ),
    "conv1d": (
        lambda: lambda x, w: functional.conv1d(x, w, padding=1),
        lambda: (some(16, 512, 1500, dtype=HALF), some(512, 512, 3, dtype=HALF)),
    ),
    "conv2d": (
        lambda: lambda x, w: functional.conv2d(x, w, padding=1),
        lambda: (some(32, 128, 56, 56, dtype=HALF), some(128, 128, 3, 3, dtype=HALF)),
    ),
    "depthwise conv2d": (
        lambda: lambda x, w: functional.conv2d(x, w, padding=3, groups=384),
        lambda: (some(16, 384, 28, 28, dtype=HALF), some(384, 1, 7, 7, dtype=HALF)),
    ),
    "conv_transpose2d": (
        lambda: lambda x, w: functional.conv_transpose2d(x, w, stride=2),
        lambda: (some(8, 256, 64, 64, dtype=HALF), some(256, 128, 2, 2, dtype=HALF)),
    ),
    "conv3d": (
        lambda: lambda x, w: functional.conv3d(x, w, padding=1),
        lambda: (some(2, 64, 16, 56, 56, dtype=HALF), some(64, 64, 3, 3, 3, dtype=HALF)),
    ),
    "max_pool2d": (
        lambda: lambda x: functional.max_pool2d(x, 3, 2, 1),
        lambda: (some(32, 64, 112, 112),),
    ),
    "max_pool3d": (
        lambda: lambda x: functional.max_pool3d(x, 2),
        lambda: (some(4, 64, 16, 64, 64),),
    ),
    "avg_pool2d, large": (
        lambda: lambda x: functional.avg_pool2d(x, 13),
        lambda: (some(16, 64, 208, 208),),
    ),
    "adaptive_avg_pool2d": (
        lambda: lambda x: functional.adaptive_avg_pool2d(x, 7),
        lambda: (some(16, 512, 40, 40),),
    ),
    "adaptive_max_pool2d": (
        lambda: lambda x: functional.adaptive_max_pool2d(x, 7),
        lambda: (some(16, 512, 40, 40),),
    ),
    "grid_sample": (
        lambda: lambda x, g: functional.grid_sample(x, g, align_corners=False),
        lambda: (some(16, 32, 128, 128), torch.rand(16, 128, 128, 2) * 2 - 1),
    ),
    "bicubic": (
        lambda: lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"),
        lambda: (some(8, 16, 128, 128),),
    ),
    "attention, prompt": (
        lambda: lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: tuple(some(4, 16, 2048, 64, dtype=HALF) for _ in range(3)),
    ),
    "attention, one token": (
        lambda: functional.scaled_dot_product_attention,
        lambda: (
            some(16, 32, 1, 128, dtype=HALF),
            some(16, 32, 4096, 128, dtype=HALF),
            some(16, 32, 4096, 128, dtype=HALF),
        ),
    ),
    "softmax": (lambda: lambda x: torch.softmax(x, -1), lambda: (some(4096, 4096),)),
    "layer_norm": (
        lambda: lambda x: functional.layer_norm(x, (4096,)),
        lambda: (some(4096, 4096),),
    ),
    "cdist": (lambda: torch.cdist, lambda: (some(2048, 64), some(2048, 64))),
    "cdist, p = 1": (
        lambda: lambda x, y: torch.cdist(x, y, p=1.0),
        lambda: (some(1024, 64), some(1024, 64)),
    ),
    "_int_mm": (lambda: torch._int_mm, lambda: (_int8(2048, 4096), _int8(4096, 4096))),
    "baddbmm": (
        lambda: torch.baddbmm,
        lambda: tuple(some(16, 1024, 1024, dtype=HALF) for _ in range(3)),
    ),
    "lstm": (_lstm, lambda: (some(8, 64, 256),)),
    "repeat_interleave": (
        lambda: lambda x: torch.repeat_interleave(x, 4, 1),
        lambda: (some(2048, 2048),),
    ),
}
"""What makes the function or module, and its inputs."""


class Op(torch.nn.Module):
    """One op of the inputs."""

    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, *inputs: torch.Tensor) -> Tensors:
        """All tensors that the op gives."""
        return tuple(torch.utils._pytree.tree_leaves(self.op(*inputs)))


def lower(name: str, path: Path) -> str:
    """Write one program; says why not where that fails."""
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from aoti_plugins import CudaPartitioner

    torch.manual_seed(0)
    make, inputs = OPS[name]
    try:
        exported = torch.export.export(Op(make()), inputs())
        edge = to_edge_transform_and_lower(
            exported,
            partitioner=[CudaPartitioner()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        path.write_bytes(edge.to_executorch().buffer)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def path_of(folder: Path, name: str) -> Path:
    """Where a program is."""
    return folder / f"{''.join(c if c.isalnum() else '_' for c in name)}.pte"


def lower_all(folder: Path, names: list[str], processes: int) -> dict[str, str]:
    """Lower the programs that are not there yet, each in a process; why some could not be."""
    # Spawned: a process that was forked after CUDA was used cannot lower.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        waiting = {
            name: pool.submit(lower, name, path_of(folder, name))
            for name in names
            if not path_of(folder, name).exists()
        }
        return {name: why for name, one in waiting.items() if (why := one.result())}


def measure(name: str, path: Path) -> dict[str, Any]:
    """Times of one op on both sides, and how far the results are apart."""
    from aoti_plugins.runtime import Program

    torch.manual_seed(0)
    make, inputs = OPS[name]
    on_gpu = tuple(tensor.cuda() for tensor in inputs())
    op = Op(make()).cuda()
    with torch.no_grad(), Program(path) as program, program.method() as method:
        expected = op(*on_gpu)
        found = method(*on_gpu, copy=False)
        difference = max(map(_difference, found, expected))
        times = compare(lambda: method(*on_gpu, copy=False), lambda: op(*on_gpu))
    return {**times, "difference": float(f"{difference:.1e}")}


def _difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative, in the Euclidean norm; the share of integers that differ."""
    if not expected.is_floating_point():
        return (found != expected).double().mean().item()
    exact = expected.double()
    return ((found.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()


def table(results: dict[str, Any], failed: dict[str, str]) -> str:
    """What to read."""
    lines = [f"{'':24}{'ours us':>10}{'torch us':>10}{'speed':>8}{'difference':>12}"]
    for name, one in results.items():
        lines.append(
            f"{name:24}{one['ours_us']:10}{one['torch_us']:10}{one['speed']:8}{one['difference']:12}"
        )
    speeds = [one["speed"] for one in results.values()]
    if speeds:
        mean = math.exp(statistics.fmean(map(math.log, speeds)))
        slow = [name for name, one in results.items() if one["speed"] * LIMIT < 1]
        lines.append(f"geometric mean of speeds {mean:.2f}; slower than {LIMIT} times: {slow}")
    lines += [f"{name}: {why}" for name, why in failed.items()]
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(OPS)}; all")
    parser.add_argument("--folder", type=Path, help="where programs go; a temporary one")
    parser.add_argument("--processes", type=int, default=8, help="lowerings at a time")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(OPS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(OPS)}")
    names = chosen.names or list(OPS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        failed = lower_all(folder, names, chosen.processes)
        results: dict[str, Any] = {}
        for name in names:
            if name in failed:
                continue
            try:
                results[name] = measure(name, path_of(folder, name))
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            environment.save(chosen.output, {"ops": results, "failed": failed})
    print(table(results, failed))


if __name__ == "__main__":
    main()
