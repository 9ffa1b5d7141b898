"""Faults planted in the kernels of the runtime: the comparison with eager notices each of them.

A fault is a piece of a kernel's text and what stands in its place. It is noticed when the operator
fails, or gives a wrong result, under at least one schedule; without it the operator is right.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import test_mps_small_linear
import torch
from mps_operators import OperatorError, Operators, check, random
from mps_support import METAL_HOST, NO_OPERATORS, operators_library, stand_in

from aoti_plugins.lowering.small_weights.weight import ZERO_POINT

KERNELS = METAL_HOST.parents[1] / "src" / "mps" / "kernels"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
Run = Callable[[Operators], None]


def matmul(operators: Operators, m: int, n: int, k: int) -> None:
    a, b = random(torch.float32, m, k), random(torch.float32, n, k).t()

    def run() -> torch.Tensor:
        out = operators.to_mps(torch.zeros(m, n))
        operators.call("aoti_torch_mps_mm_out", out, operators.to_mps(a), operators.to_mps(b))
        return out.torch()

    check(run, a @ b)


def attention(operators: Operators, rows: int, causal: bool) -> None:
    q = random(torch.float32, 1, 2, rows, 20)
    k, v = (random(torch.float32, 1, 2, 70, 20, seed=i) for i in range(2))
    name = "_scaled_dot_product_attention_math_for_mps"

    def run() -> torch.Tensor:
        tensors = map(operators.to_mps, (q, k, v))
        return operators.results(name, 2, *tensors, None, 0.0, int(causal), None, None)[0]

    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    check(run, wanted)


def cumsum(operators: Operators) -> None:
    x = random(torch.int64, 2, 2500)
    check(lambda: operators.results("cumsum", 1, operators.to_mps(x), 1, None)[0], x.cumsum(1))


def sort(operators: Operators) -> None:
    x = random(torch.int32, 2, 70)
    wanted = x.sort(dim=1, stable=True).indices
    check(lambda: operators.results("sort", 2, operators.to_mps(x), 1, 0)[1], wanted)


def scatter(operators: Operators) -> None:
    x, src, index = torch.zeros(5), torch.arange(40.0), torch.arange(40) % 4

    def run() -> torch.Tensor:
        out = operators.to_mps(x)
        tensors = map(operators.to_mps, (index, src))
        operators.call("aoti_torch_mps_scatter_src_out", out, out, 0, *tensors)
        return out.torch()

    check(run, torch.tensor([36.0, 37.0, 38.0, 39.0, 0.0]))


@dataclass(frozen=True)
class Fault:
    """What is replaced in ``<kernel>.metal``, and what runs it."""

    kernel: str
    old: str
    new: str
    run: Run


def simdgroups(operators: Operators) -> None:
    matmul(operators, 70, 65, 40)


def plain_tiles(operators: Operators) -> None:
    matmul(operators, 9, 10, 40)


def one_row(operators: Operators) -> None:
    matmul(operators, 1, 70, 45)


def small_rows(operators: Operators) -> None:
    small_linear(operators, 2)


def small_tiles(operators: Operators) -> None:
    small_linear(operators, 9)


def small_linear(operators: Operators, rows: int) -> None:
    given = test_mps_small_linear.product(rows, 37, 96, 4, 32, ZERO_POINT)
    wanted = test_mps_small_linear.expected(given)
    check(lambda: test_mps_small_linear.found(operators, given), wanted)


FAULTS = {
    "no barrier before a tile is read": Fault(
        "gemm", f"int(thread_index));\n    {BARRIER}", "int(thread_index));\n", simdgroups
    ),
    "no barrier before a tile is filled again": Fault(
        "gemm", f"      }}\n    }}\n    {BARRIER}", "      }\n    }\n", simdgroups
    ),
    "zeros of another group": Fault(
        "small_linear_rows", "by, zero, of_group)", "by, zero, 0)", small_rows
    ),
    "halves of a group that are swapped": Fault(
        "gemm", "is_upper ? both", "!is_upper ? both", small_tiles
    ),
    "a wrong stride": Fault("gemm", "at.k * INDEX(p.a_col)", "at.k * INDEX(p.a_row)", plain_tiles),
    "threads that leave before a barrier": Fault(
        "scan", "    totals[thread_index] = total;\n",
        "    totals[thread_index] = total;\n    if (thread_index > 100) return;\n", cumsum,
    ),
    "a simdgroup's operation that some lanes skip": Fault(
        "gemm_rows", "const float sum = simd_sum(sums[i][j]);",
        "float sum = 0.0f;\n      if (lane < 20) sum = simd_sum(sums[i][j]);", one_row,
    ),
    "a sum of too few lanes": Fault("gemm_rows", "k < p.k; k += 32)", "k < p.k; k += 33)", one_row),
    "group memory that nobody has written": Fault(
        "attention_tiled", "    tile[row * STEP + column] =\n        inside ?",
        "    if (inside) tile[row * STEP + column] =\n        inside ?",
        lambda operators: attention(operators, 9, False),
    ),
    "no barrier between the lanes of a simdgroup": Fault(
        "attention_tiled", "simdgroup_barrier(mem_flags::mem_threadgroup);", "",
        lambda operators: attention(operators, 9, False),
    ),
    "sums that are not rescaled": Fault(
        "attention_rows", "sums[i] * factor + weight", "sums[i] + weight",
        lambda operators: attention(operators, 2, False),
    ),
    "a causal mask that is one off": Fault(
        "attention_tiled", "key > row)", "key > row + 1)",
        lambda operators: attention(operators, 40, True),
    ),
    "no barrier in a scan": Fault(
        "scan", f"ACC(PRODUCT);\n      {BARRIER}", "ACC(PRODUCT);\n", cumsum
    ),
    "a carry that is lost": Fault(
        "scan", "carry = combined(carry, totals", "carry = (totals", cumsum
    ),
    "no barrier between the steps of a sort": Fault(
        "sort", f"reach /= 2) {{\n    {BARRIER}", "reach /= 2) {\n", sort
    ),
    "a sort that is not stable": Fault(
        "sort", "|| (a == b && a_place > b_place)", "", sort
    ),
    "places that no thread owns": Fault(
        "scatter", "% uint(owners);", "% uint(owners + 1);", scatter
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if i % 4 == 0 else pytest.mark.long)
        for i, name in enumerate(FAULTS)
    ],
)
def test_a_fault_is_noticed(shared_dir: Path, run_python: Callable[..., str], name: str) -> None:
    path = operators_library()
    if path is None:
        pytest.skip(NO_OPERATORS)
    fault = FAULTS[name]
    assert fault.old in (KERNELS / f"{fault.kernel}.metal").read_text()
    folders = [Path(__file__).parent, Path(__file__).parents[1]]
    environment = {
        **stand_in(shared_dir),
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "AOTI_PLUGINS_METAL_COMPILER": f"{sys.executable} {folders[0] / 'faulty_compile.py'}",
        "METAL_FAULT_OLD": _embedded(fault.old),
        "METAL_FAULT_NEW": _embedded(fault.new),
    }
    # A process of its own has built no kernel yet.
    script = """
        import sys
        from test_mps_kernel_faults import is_noticed
        print("noticed:", is_noticed(sys.argv[1], sys.argv[2]))
    """
    assert "noticed: True" in run_python(script, name, path, **environment)


def _embedded(text: str) -> str:
    """Text as the runtime has it: native/cmake/embed_metal.cmake leaves indents out."""
    return re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE)


def is_noticed(name: str, path: str) -> bool:
    """Whether the operator fails, or is wrong, in this process, where kernels have the fault."""
    operators = Operators(Path(path))
    try:
        FAULTS[name].run(operators)
    except (AssertionError, OperatorError):
        return True
    return False


def test_without_a_fault_all_is_well(operators: Operators) -> None:
    for run in {fault.run for fault in FAULTS.values()}:
        run(operators)
