"""Rows that the kernel multiplies by weights of floats, compared with float64.

    python float_row_cases.py RESULT [cuda]

Interpreted by Triton on the CPU unless ``cuda`` is said; the kernel's instructions of PTX are
carried out here then. Writes the error of each case, as a share of the result's norm.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

KINDS = ("e4m3", "e5m2", "mx_e4m3", "mx_e5m2", "nvfp4")
DTYPES = {"float32": 1e-6, "float16": 5e-4, "bfloat16": 4e-3}
"""Of x and the result, and how large an error may be."""

CASES = {
    f"{kind}, {dtype}, {n} x {k}": (kind, dtype, n, k)
    for kind, dtype, (n, k) in [
        *itertools.product(KINDS, DTYPES, [(9, 96)]),
        # A piece behind whole steps of the loop, and rows from which on there are other steps.
        *itertools.product(KINDS, ["float32"], [(1, 32), (2, 1056), (3, 16416)]),
    ]
}


def weight_of(kind: str, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, float]:
    """All floats of a kind in turn but those that are no numbers, and scales."""
    if kind == "nvfp4":
        codes = torch.arange(n * k // 2, dtype=torch.int64) * 37 % 256
        scales = torch.randint(0, 0x7F, (n, k // 16), dtype=torch.uint8)
        return codes.reshape(n, k // 2).to(torch.uint8), scales, 0.75
    numbers = [c for c in range(256) if c & 0x7F < (0x7F if "e4m3" in kind else 0x7C)]
    codes = torch.tensor(numbers, dtype=torch.uint8)[torch.arange(n * k) * 37 % len(numbers)]
    if kind.startswith("mx_"):
        return codes.reshape(n, k), torch.randint(110, 140, (n, k // 32), dtype=torch.uint8), 1.0
    return codes.reshape(n, k), torch.rand(n, 1) + 0.5, 1.0


def error_of(kind: str, dtype: str, n: int, k: int, device: str) -> float:
    """The error of one product with a bias."""
    from aoti_plugins.cuda.float_row.op import run
    from aoti_plugins.lowering.small_weights.float_weights import values

    torch.manual_seed(0)
    codes, scale, whole = weight_of(kind, n, k)
    weight = values(codes, scale, whole, kind).double()
    # Small enough for results of float16.
    x = (torch.randn(1, k) / weight.norm(dim=1).max().float()).to(getattr(torch, dtype))
    bias = torch.randn(n).to(x.dtype)
    expected = x.double() @ weight.t() + bias.double()
    out = torch.empty(1, n, dtype=x.dtype, device=device)
    factor = torch.full((n, 1), whole) if kind == "nvfp4" else scale
    scales = None if scale.dtype == torch.float32 else scale.to(device)
    factors = None if kind.startswith("mx_") else factor.to(device)
    x, codes, bias = (one.to(device) for one in (x, codes, bias))
    run(x, codes, scales, factors, bias, kind, out)
    return ((out.cpu().double() - expected).norm() / expected.norm()).item()


class Results:
    """What Triton asks for results of instructions."""

    def __init__(self, results: Sequence[Any]) -> None:
        self._results = results

    def get_result(self, place: int) -> Any:
        """A result by its place."""
        return self._results[place]


def carried_out(text: str, words: np.ndarray) -> list[np.ndarray]:
    """What instructions of PTX write to ``$0`` and ``$1`` for words of 32 bits in ``$2``."""
    registers = {"$2": words.astype(np.uint32)}

    def value(name: str) -> np.ndarray:
        if name in registers:
            return registers[name]
        return np.full_like(registers["$2"], int(name, 0))

    for line in re.sub(r"[{}]|\.reg[^;]*;", "", text).split(";"):
        if not line.strip():
            continue
        op, _, rest = line.strip().partition(" ")
        to, *given = (one.strip() for one in rest.split(","))
        a, *others = map(value, given)
        if op == "mov.b32":
            found = a
        elif op == "shl.b32":
            found = a << others[0]
        elif op == "shr.u32":
            found = a >> others[0]
        elif op == "and.b32":
            found = a & others[0]
        elif op == "prmt.b32":
            found = permuted(a, others[0], int(given[2], 0))
        elif op == "lop3.b32":
            found = combined(a, *others[:2], int(given[3], 0))
        else:
            raise NotImplementedError(line)
        registers[to] = found
    return [registers["$0"], registers["$1"]]


def permuted(a: np.ndarray, b: np.ndarray, selector: int) -> np.ndarray:
    """``prmt`` without signs: bytes of a are 0 to 3, those of b 4 to 7."""
    both = [one >> np.uint32(8 * byte) & np.uint32(0xFF) for one in (a, b) for byte in range(4)]
    chosen = [both[selector >> 4 * place & 7] << np.uint32(8 * place) for place in range(4)]
    return chosen[0] | chosen[1] | chosen[2] | chosen[3]


def combined(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    """``lop3``: bit ``4 a + 2 b + c`` of the table for the three bits."""
    found = np.zeros_like(a)
    for place in range(8):
        if table >> place & 1:
            terms = [one if place >> bit & 1 else ~one for one, bit in ((a, 2), (b, 1), (c, 0))]
            found |= terms[0] & terms[1] & terms[2]
    return found


def interpret_instructions() -> None:
    """Triton's interpreter has no PTX: carry out the instructions on four bytes at a time."""
    from triton import language as tl
    from triton.runtime import interpreter

    def create(self: Any, text: str, _: str, values: Any, types: Any, is_pure: bool, pack: int):  # type: ignore[no-untyped-def]
        del types
        (codes,) = values
        assert is_pure
        assert pack == 4
        assert codes.data.dtype == np.uint8
        words = np.ascontiguousarray(codes.data).view(np.uint32)
        both = np.stack(carried_out(text, words), -1)
        numbers = both.view(np.float16).reshape(codes.data.shape)
        return Results([interpreter.TensorHandle(numbers, tl.float16)])

    interpreter.InterpreterBuilder.create_inline_asm = create


if __name__ == "__main__":
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
        sys.path.insert(0, str(Path(__file__).parent.parent / "cuda_attention"))
        from attention_cases import index_by_scalars

        index_by_scalars()
        interpret_instructions()
    errors = {name: error_of(*case, device) for name, case in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(errors))
