"""Measure what the cost model for GPU kernels is calibrated with, on the GPU of this machine.

Inductor compiles models and single operations with ``max_autotune``. Every configuration that it
would benchmark is timed here instead, and written down with what the compiler says of it:
registers, spills, shared memory, grid, instructions that touch memory. Times are of CUDA graphs
with many launches: "warm" launches use the same tensors, "cold" ones rotate among copies so large
that no launch finds its inputs in the L2 cache.

    python benchmarks/tuning_data.py --output h100.json.gz --seconds 420

Needs an NVIDIA GPU, a CUDA build of PyTorch and Triton; nothing of this package.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import hashlib
import inspect
import itertools
import json
import re
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import gpu_models
import torch
import triton
import triton.language as tl
from torch.nn import functional

MIB = 1 << 20
ROTATED_NBYTES = 192 * MIB
MOST_COPIES = 48

_WIDTHS = re.compile(r"(ld|st)\.global[\w.:]*?\.(?:(v[248])\.)?[busf](8|16|32|64|128)\b")
_INSTRUCTION = re.compile(r"^\s+(?:@!?%p\d+ )?([a-z][\w.:]*)", re.M)


class Recorder:
    """Collects kernels and their candidates while Inductor compiles.

    Attributes:
        kernels: pointwise and reduction kernels, by digest of source, sizes and strides.
        products: matrix products and convolutions, by operation, sizes and strides.
        few_rows: candidates of the kernel for one to a few rows.
        errors: what went wrong, as text.
    """

    def __init__(self, deadline: float) -> None:
        self.kernels: dict[str, dict[str, Any]] = {}
        self.products: dict[str, dict[str, Any]] = {}
        self.few_rows: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.deadline = deadline
        self.program = ""

    def failed(self, where: str) -> None:
        """Keep the exception that is being handled."""
        self.errors.append(f"{self.program}: {where}: {traceback.format_exc(limit=4)}")

    @property
    def late(self) -> bool:
        """Whether no time is left to measure."""
        return time.monotonic() > self.deadline


# Timing


def graph_microseconds(
    make: Callable[[Sequence[Any]], Callable[[], Any]], arguments: Sequence[Sequence[Any]]
) -> float:
    """Time of one launch within a graph of launches.

    Args:
        make: gives the call for one set of arguments; called with the stream of the graph current.
        arguments: sets of arguments that the launches take in turn.
    """
    stream = _stream()
    with torch.cuda.stream(stream):
        calls = [make(one) for one in arguments]
        for call in calls[:2]:
            call()
        stream.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(stream)
        for call in calls[:3]:
            call()
        end.record(stream)
        end.synchronize()
        guess = max(start.elapsed_time(end) * 1e3 / min(len(calls), 3), 1.0)
        launches = int(max(8, min(96, 1500 / guess)))
        launches = -(-launches // len(calls)) * len(calls)
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        for index in range(launches):
            calls[index % len(calls)]()
        graph.capture_end()
        graph.replay()
        times = []
        for _ in range(5):
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / launches)
    del graph
    return statistics.median(times)


@functools.cache
def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()


def rotated(arguments: Sequence[Any]) -> list[list[Any]]:
    """Copies of the arguments that together are far larger than the L2 cache."""
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    nbytes = sum(_storage_nbytes(one) for one in tensors) or 1
    copies = max(1, min(MOST_COPIES, -(-ROTATED_NBYTES // nbytes)))
    sets = [list(arguments)]
    for _ in range(copies - 1):
        sets.append([_copy(one) if isinstance(one, torch.Tensor) else one for one in arguments])
    return sets


def _storage_nbytes(tensor: torch.Tensor) -> int:
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return extent * tensor.element_size()


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    extent = _storage_nbytes(tensor) // tensor.element_size()
    storage = tensor.as_strided((extent,), (1,)).clone()
    return storage.as_strided(tensor.shape, tensor.stride())


# What the compiler says


def ptx_facts(ptx: str) -> dict[str, Any]:
    """Counts of instructions: memory accesses by bytes per thread, and a few others."""
    loads: dict[str, int] = {}
    stores: dict[str, int] = {}
    for which, vector, bits in _WIDTHS.findall(ptx):
        width = int(bits) // 8 * (int(vector[1:]) if vector else 1)
        side = loads if which == "ld" else stores
        side[str(width)] = side.get(str(width), 0) + 1
    names = _INSTRUCTION.findall(ptx)
    starts = {
        "mma": ("mma.", "wgmma.mma_async"),
        "shuffles": ("shfl.",),
        "barriers": ("bar.", "barrier."),
        "async_copies": ("cp.async.c",),
        "special": ("ex2.", "lg2.", "rcp.", "rsqrt.", "sqrt.", "div.", "sin.", "cos.", "tanh."),
        "branches": ("bra",),
    }
    counts = {key: sum(name.startswith(begins) for name in names) for key, begins in starts.items()}
    return {"loads": loads, "stores": stores, "instructions": len(names), **counts}


def binary_facts(autotuner: Any, launcher: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "registers": launcher.n_regs,
        "spills": launcher.n_spills,
        "shared": launcher.shared,
    }
    for result in autotuner.compile_results:
        asm = getattr(result.kernel, "asm", None)
        if result.config is launcher.config and asm and "ptx" in asm:
            facts["ptx"] = ptx_facts(asm["ptx"])
    return facts


def _config(config: Any) -> dict[str, Any]:
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


# Pointwise kernels and reductions


def record_bench(recorder: Recorder) -> Callable[..., float]:
    """Stands in for ``CachingAutotuner.bench``."""

    def bench(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
        try:
            return _bench(recorder, self, launcher, args) / 1e3
        except Exception:
            recorder.failed(self.fn.__name__)
            return float("inf")

    return bench


def _bench(recorder: Recorder, tuner: Any, launcher: Any, args: Sequence[Any]) -> float:
    if str(tuner.heuristic_type).endswith("TEMPLATE") or recorder.late:
        return 1.0
    if (launcher.n_spills or 0) > 64:
        return float("inf")
    kernel = _kernel_of(recorder, tuner, args)
    config = _config(launcher.config)
    for known in kernel["candidates"]:
        if known["config"] == config:
            return float(known["cold_us"])

    def make(arguments: Sequence[Any]) -> Callable[[], Any]:
        stream = torch.cuda.current_stream().cuda_stream
        return lambda: launcher(*arguments, stream=stream)

    found = {"config": config, **binary_facts(tuner, launcher)}
    with contextlib.suppress(Exception):
        found["grid"] = list(tuner._interpret_args_grid(tuple(args), launcher.config)[1])
    found["warm_us"] = graph_microseconds(make, [args])
    found["cold_us"] = graph_microseconds(make, rotated(args))
    kernel["candidates"].append(found)
    return float(found["cold_us"])


def _kernel_of(recorder: Recorder, tuner: Any, args: Sequence[Any]) -> dict[str, Any]:
    source = re.sub(rf"\b{re.escape(tuner.fn.__name__)}\b", "kernel", tuner.fn.src)
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    shapes = [[list(one.shape), list(one.stride()), str(one.dtype)[6:]] for one in tensors]
    key = hashlib.sha256(f"{source}{shapes}".encode()).hexdigest()[:16]
    if key not in recorder.kernels:
        signature = tuner.triton_meta["signature"]
        names = [n for n in tuner.fn.arg_names if signature.get(n, "constexpr") != "constexpr"]
        named = dict(zip(names, args, strict=False))
        meta = tuner.inductor_meta
        recorder.kernels[key] = {
            "program": recorder.program,
            "name": tuner.fn.__name__,
            "kind": str(tuner.heuristic_type).rsplit(".", 1)[-1].lower(),
            "size_hints": dict(tuner.size_hints or {}),
            "numels": {k: v for k, v in named.items() if k.endswith("numel")},
            "tensors": [
                [name, *_shape(one)] for name, one in named.items() if isinstance(one, torch.Tensor)
            ],
            "hint": str(meta.get("reduction_hint")),
            "meta": {k: v for k, v in meta.items() if k.startswith("num_") or k == "no_x_dim"},
            "source": tuner.fn.src,
            "candidates": [],
        }
    return recorder.kernels[key]


def _shape(tensor: torch.Tensor) -> tuple[list[int], list[int], str]:
    return list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch.")


# Matrix products


def record_choice(recorder: Recorder) -> Callable[..., float]:
    """Stands in for the ``benchmark`` of Triton templates and of calls to libraries."""

    def benchmark(self: Any, *args: Any, out: torch.Tensor) -> float:
        if recorder.late:
            return 1.0  # any answer will do, nothing is measured any more
        try:
            return _benchmark(recorder, self, args, out) / 1e3
        except Exception:
            recorder.failed(str(self))
            return float("inf")

    return benchmark


def _benchmark(
    recorder: Recorder, choice: Any, args: Sequence[torch.Tensor], out: torch.Tensor
) -> float:
    is_template = type(choice).__name__ == "TritonTemplateCaller"
    key = json.dumps([[_shape(one) for one in args], _shape(out)])
    product = recorder.products.setdefault(
        key,
        {
            "program": recorder.program,
            "inputs": [_shape(one) for one in args],
            "output": _shape(out),
            "candidates": [],
        },
    )

    def make(arguments: Sequence[Any]) -> Callable[[], Any]:
        *inputs, result = arguments
        if is_template:
            return choice.bmreq.make_run_fn(*inputs, out=result)
        call = choice.to_callable()
        if getattr(choice, "has_out_variant", True):
            return lambda: call(*inputs, out=result)
        return lambda: call(*inputs)

    found: dict[str, Any] = {"name": str(choice.name), "template": is_template}
    found["warm_us"] = graph_microseconds(make, [[*args, out]])
    found["cold_us"] = graph_microseconds(make, rotated([*args, out]))
    if is_template:
        found["config"] = {k: v for k, v in choice.info_dict().items() if v != -1}
        found["description"] = choice.description
        found.update(_template_facts(choice))
    product["candidates"].append(found)
    return float(found["cold_us"])


def _template_facts(choice: Any) -> dict[str, Any]:
    from torch._inductor.codecache import PyCodeCache

    parameters = inspect.signature(PyCodeCache.load_by_key_path).parameters
    more = {"set_sys_modules": False} if "set_sys_modules" in parameters else {}
    request = choice.bmreq
    module = PyCodeCache.load_by_key_path(request.module_cache_key, request.module_path, **more)
    tuner = getattr(module, request.kernel_name)
    tuner.precompile()
    return {
        **binary_facts(tuner, tuner.launchers[0]),
        "grid": [int(one) for one in request.extra_args[-3:]],
    }


# One to a few rows


@triton.jit
def few_rows_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    columns,
    depth,
    ROWS: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr,  # noqa: N803
    BLOCK_K: tl.constexpr,  # noqa: N803
):
    """``y = x @ w.T`` for row-major ``x [ROWS, depth]`` and ``w [columns, depth]``."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.arange(0, ROWS)
    total = tl.zeros([ROWS, BLOCK_N, BLOCK_K], tl.float32)
    for start in range(0, depth, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        w = tl.load(
            w_ptr + n[:, None] * depth + k[None, :],
            mask=(n[:, None] < columns) & (k[None, :] < depth),
            other=0.0,
            eviction_policy="evict_first",
        ).to(tl.float32)
        x = tl.load(x_ptr + m[:, None] * depth + k[None, :], mask=k[None, :] < depth, other=0.0).to(
            tl.float32
        )
        total += x[:, None, :] * w[None, :, :]
    y = tl.sum(total, axis=2)
    tl.store(
        y_ptr + m[:, None] * columns + n[None, :],
        y.to(y_ptr.dtype.element_ty),
        mask=n[None, :] < columns,
    )


def few_rows(recorder: Recorder, shapes: Sequence[tuple[int, int]]) -> None:
    recorder.program = "few_rows"
    for rows in (1, 2, 4, 8):
        for block_n, block_k, warps in _few_rows_configs(rows):
            for columns, depth in shapes:
                if recorder.late:
                    return
                try:
                    recorder.few_rows.append(
                        _time_few_rows(rows, columns, depth, block_n, block_k, warps)
                    )
                except Exception:
                    recorder.failed(f"{rows} {columns} {depth} {block_n} {block_k} {warps}")


def _few_rows_configs(rows: int) -> Iterator[tuple[int, int, int]]:
    for block_n in (1, 2, 4, 8, 16):
        for block_k in (256, 512, 1024, 2048):
            for warps in (1, 2, 4, 8):
                weights = block_n * block_k // (32 * warps)
                if rows * weights <= 64 and 8 <= weights <= 32 and block_k // 8 >= 32:
                    yield block_n, block_k, warps


def _time_few_rows(
    rows: int, columns: int, depth: int, block_n: int, block_k: int, warps: int
) -> dict[str, Any]:
    x, w = (torch.randn(n, depth, device="cuda", dtype=torch.bfloat16) for n in (rows, columns))
    y = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
    grid = (-(-columns // block_n),)

    def make(arguments: Sequence[Any]) -> Callable[[], Any]:
        return lambda: few_rows_kernel[grid](
            *arguments, columns, depth, rows, block_n, block_k, num_warps=warps
        )

    kernel = make([x, w, y])()
    expected = x.float() @ w.float().t()
    error = (y.float() - expected).norm() / expected.norm()
    if not error < 1e-2:
        raise AssertionError(f"relative error {error}")
    return {
        "sizes": [rows, columns, depth],
        "config": {"BLOCK_N": block_n, "BLOCK_K": block_k, "num_warps": warps, "num_stages": 3},
        "grid": list(grid),
        "registers": kernel.n_regs,
        "spills": kernel.n_spills,
        "shared": kernel.metadata.shared,
        "ptx": ptx_facts(kernel.asm["ptx"]),
        "warm_us": graph_microseconds(make, [[x, w, y]]),
        "cold_us": graph_microseconds(make, rotated([x, w, y])),
    }


# The programs


Program = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def programs() -> Iterator[tuple[str, Program]]:
    """The models, and the operations in groups: many are compiled at once on many cores."""
    for name, make in gpu_models.MODELS.items():
        if name != "cnn":
            model, inputs = make()
            yield name, (model.cuda(), tuple(one.cuda() for one in inputs))
    yield from _groups("products", _products(), 8)
    yield from _groups("kernels", _kernels(), 14)
    model, inputs = gpu_models.MODELS["cnn"]()
    yield "cnn", (model.cuda(), tuple(one.cuda() for one in inputs))


def _groups(
    name: str, single: Iterator[tuple[str, Program]], size: int
) -> Iterator[tuple[str, Program]]:
    for index in itertools.count():
        group = list(itertools.islice(single, size))
        if not group:
            return
        yield f"{name}_{index}", _together([program for _, program in group])


def _together(group: Sequence[Program]) -> Program:
    """One function of all inputs that runs them all; nothing is shared, so nothing is fused."""
    counts = [len(inputs) for _, inputs in group]

    def run(*inputs: torch.Tensor) -> list[Any]:
        results, start = [], 0
        for (function, _), count in zip(group, counts, strict=True):
            results.append(function(*inputs[start : start + count]))
            start += count
        return results

    return run, tuple(_copy(one) for _, inputs in group for one in inputs)


def _random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def _products() -> Iterator[tuple[str, Program]]:
    layers = ((1024, 1024), (3072, 1024), (5632, 1024), (1024, 2816), (8192, 1024), (4096, 4096))
    for m in (1, 128, 16, 4):
        for n, k in layers:
            if m in (1, 128) and (n, k) != (4096, 4096):
                continue  # the transformer's own
            yield f"linear_{m}_{n}_{k}", (functional.linear, (_random(m, k), _random(n, k)))
    for m, n, k in ((1024, 1024, 1024), (512, 4096, 1024), (2048, 2048, 2048), (4096, 4096, 4096)):
        yield f"mm_{m}_{n}_{k}", (torch.mm, (_random(m, k), _random(k, n)))
    yield "mm_16_1024_8192", (torch.mm, (_random(16, 8192), _random(8192, 1024)))
    bias = _random(4096)
    yield "addmm_128", (functional.linear, (_random(128, 1024), _random(4096, 1024), bias))
    for m, n, k in ((4, 256, 64), (64, 1024, 1024), (512, 512, 512), (1024, 1024, 1024)):
        one, two = _random(m, k, dtype=torch.float32), _random(n, k, dtype=torch.float32)
        yield f"linear_f32_{m}_{n}_{k}", (functional.linear, (one, two))
    for b, m, n, k in (
        (16, 128, 128, 64),
        (16, 128, 64, 128),
        (32, 512, 512, 64),
        (16, 1, 512, 64),
    ):
        yield f"bmm_{b}_{m}_{n}_{k}", (torch.bmm, (_random(b, m, k), _random(b, k, n)))


def _kernels() -> Iterator[tuple[str, Program]]:
    f32, bf16 = torch.float32, torch.bfloat16

    def rms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w

    def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], w, w)

    def gated(x: torch.Tensor) -> torch.Tensor:
        one, two = x.chunk(2, -1)
        return functional.silu(one) * two

    for n in (1 << 10, 1 << 15, 1 << 18, 1 << 21, 1 << 25):
        for dtype in (f32, bf16):
            x = _random(n, dtype=dtype)
            yield f"gelu_{n}_{dtype}", (functional.gelu, (x,))
            yield f"add_{n}_{dtype}", (lambda a, b: (a + b).relu(), (x, x.clone()))
    for m, n in ((1, 5632), (128, 5632), (2048, 5632)):
        yield f"gated_{m}_{n}", (gated, (_random(m, n),))
    for m, n in ((128, 1024), (1024, 1024), (4096, 4096)):
        yield f"transpose_{m}_{n}", (lambda x: x.t().contiguous() * 2, (_random(m, n),))
        yield f"transposed_add_{m}_{n}", (lambda x, y: x.t() + y, (_random(m, n), _random(n, m)))
    yield "heads", (lambda x: x.transpose(1, 2).contiguous() + 1, (_random(8, 128, 16, 64),))
    yield (
        "bias_relu",
        (
            lambda x, b: (x + b[:, None, None]).relu(),
            (_random(8, 32, 112, 112, dtype=f32), _random(32, dtype=f32)),
        ),
    )
    yield (
        "channels_last",
        (
            lambda x: x.contiguous(memory_format=torch.channels_last) * 2,
            (_random(8, 64, 56, 56, dtype=f32),),
        ),
    )
    for m, n in ((1, 1024), (128, 1024), (4096, 768), (1024, 8192), (16, 32768)):
        x, w = _random(m, n), _random(n)
        yield f"rms_{m}_{n}", (rms, (x, w))
        yield f"norm_{m}_{n}", (norm, (x, w))
        yield f"softmax_{m}_{n}", (lambda x: torch.softmax(x.float(), -1), (x,))
    for m, n in ((4, 64), (2048, 128), (2048, 2048), (8, 50257)):
        yield f"softmax_{m}_{n}", (lambda x: torch.softmax(x, -1), (_random(m, n, dtype=f32),))
    for m, n in ((1024, 64), (1024, 1024), (64, 65536), (8192, 256), (1, 1 << 20)):
        x = _random(m, n, dtype=f32)
        yield f"sum_inner_{m}_{n}", (lambda x: x.sum(-1), (x,))
        yield f"sum_outer_{m}_{n}", (lambda x: x.sum(0), (x,))
        yield f"argmax_{m}_{n}", (lambda x: x.argmax(-1), (x,))
    yield "pooled", (lambda x: x.mean((2, 3)), (_random(8, 256, 14, 14, dtype=f32),))
    yield "group_norm", (lambda x: functional.group_norm(x, 32), (_random(4, 256, 32, 32),))
    yield "column_norm", (lambda x: x / x.norm(dim=0, keepdim=True), (_random(2048, 512),))


def machine() -> dict[str, Any]:
    """Ceilings of this GPU: copies, launches, a large matrix product."""
    facts = {"name": torch.cuda.get_device_name(), "torch": torch.__version__}
    facts["triton"] = triton.__version__
    for nbytes in (1 * MIB, 8 * MIB, 64 * MIB, 1024 * MIB):
        one = torch.empty(nbytes, dtype=torch.uint8, device="cuda").random_()
        two = torch.empty_like(one)
        us = graph_microseconds(lambda pair: lambda: pair[1].copy_(pair[0]), rotated([one, two]))
        facts[f"copy_{nbytes // MIB}_mib_us"] = us
        facts[f"copy_{nbytes // MIB}_mib_bytes_per_second"] = 2 * nbytes / us * 1e6
    tiny = torch.zeros(1, device="cuda")
    facts["empty_launch_us"] = graph_microseconds(lambda one: lambda: one[0].add_(1), [[tiny]])
    a = _random(8192, 8192)
    us = graph_microseconds(lambda pair: lambda: torch.mm(*pair), [[a, a]])
    facts["mm_8192_bf16_flops"] = 2 * 8192**3 / us * 1e6
    return facts


OPTIONS = {
    "max_autotune": True,
    "max_autotune_pointwise": True,
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "ATEN,TRITON",
    "max_autotune_conv_backends": "ATEN,TRITON",
    "benchmark_epilogue_fusion": False,
    "coordinate_descent_tuning": False,
    "use_static_cuda_launcher": False,
    "force_disable_caches": True,
    "autotune_in_subproc": False,
    "triton.cudagraphs": False,
}


def record_all(recorder: Recorder, only: str, save: Callable[[], None]) -> None:
    from torch._inductor import config, select_algorithm
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    template = select_algorithm.TritonTemplateCaller
    extern = select_algorithm.ExternKernelCaller
    known = {key: value for key, value in OPTIONS.items() if _has(config, key)}
    with (
        config.patch(known),
        torch.no_grad(),
        mock.patch.object(CachingAutotuner, "bench", record_bench(recorder)),
        mock.patch.object(template, "benchmark", record_choice(recorder)),
        mock.patch.object(extern, "benchmark", record_choice(recorder)),
    ):
        few = False
        for name, (function, inputs) in programs():
            if not re.search(only, name):
                continue
            if not few and name.startswith("products"):
                few_rows(recorder, ((1024, 1024), (5632, 1024), (1024, 2816), (8192, 1024)))
                few = True
            if recorder.late:
                recorder.errors.append(f"out of time at {name}")
                return
            recorder.program = name
            start = time.monotonic()
            # Deferred choices let the templates of a whole group compile at once.
            deferred = {"benchmark_epilogue_fusion": name.startswith("products")}
            try:
                torch._dynamo.reset()
                with config.patch(deferred):
                    torch.compile(function, dynamic=False)(*inputs)
                torch.cuda.synchronize()
            except Exception:
                recorder.failed("compile")
            save()
            print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)


def _has(config: Any, key: str) -> bool:
    try:
        config.__getattr__(key) if "." not in key else None
    except AttributeError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=420, help="stop measuring after these")
    parser.add_argument("--only", default="", help="regular expression for names of programs")
    options = parser.parse_args()
    recorder = Recorder(time.monotonic() + options.seconds)
    facts = machine()
    print(json.dumps(facts), flush=True)
    # After every program, so that a run that is cut off leaves what it has.
    record_all(recorder, options.only, functools.partial(save, options.output, facts, recorder))
    for kind, found in (("kernels", recorder.kernels), ("products", recorder.products)):
        candidates = sum(len(one["candidates"]) for one in found.values())
        print(f"{len(found)} {kind}, {candidates} candidates")
    print(f"{len(recorder.few_rows)} few-row candidates, {len(recorder.errors)} errors")


def save(path: Path, facts: dict[str, Any], recorder: Recorder) -> None:
    report = {
        "machine": facts,
        "kernels": list(recorder.kernels.values()),
        "products": list(recorder.products.values()),
        "few_rows": recorder.few_rows,
        "errors": recorder.errors,
    }
    partial = path.with_name(f"{path.name}.part")
    with gzip.open(partial, "wt") as file:
        json.dump(report, file, default=str)
    partial.replace(path)


if __name__ == "__main__":
    main()
