"""Bags that the kernels reduce, compared with the same without kernels.

    python bag_cases.py RESULT [cuda]

Interpreted by Triton on the CPU unless ``cuda`` is said. Writes the largest difference by case.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

DTYPES = {
    "float32": (torch.float32, 3e-5),
    "float64": (torch.float64, 1e-12),
    "float16": (torch.float16, 2e-3),
    "bfloat16": (torch.bfloat16, 2e-3),
}
OFFSETS = {
    "several": [0, 2, 2, 9, 40],
    "one": [0],
    "empty at the end": [0, 41],
    "no places": [0, 3, 99, -2],
}
CASES = {
    f"{dtype}, {width} wide, {offsets}, {how}": (dtype, width, offsets, how)
    for dtype, width, offsets, how in [
        *itertools.product(DTYPES, [3], ["several"], ["sum", "max"]),
        *itertools.product(["float32"], [1, 300], OFFSETS, ["sum", "max"]),
        *itertools.product(
            ["float32"],
            [40],
            ["several"],
            ["factors", "padding", "padding max", "stops", "strided"],
        ),
    ]
}


def bags(dtype: str, width: int, offsets: str, how: str) -> tuple[Any, ...]:
    """The arguments of ``reduce_bags``."""
    generator = torch.Generator().manual_seed(width)
    step = 2 if how == "strided" else 1
    weight = torch.randn(7 * step, width * step, generator=generator).to(DTYPES[dtype][0])
    indices = torch.randint(0, 7, (41 * step,), generator=generator)
    starts = torch.tensor([x for one in OFFSETS[offsets] for x in (one,) * step])
    indices = indices.int() if how == "max" else indices
    starts = starts.int() if how == "max" else starts
    factors = torch.randn(41, generator=generator) if how == "factors" else None
    count = len(OFFSETS[offsets]) - (how == "stops")
    padding = 2 if how.startswith("padding") else -1
    tensors = (weight[::step, ::step], indices[::step], starts[::step])
    return (*tensors, count, how == "stops", factors, padding, how.endswith("max"))


def error_of(case: tuple[str, int, str, str], device: str) -> float:
    """The largest difference of values; infinite where another index is chosen."""
    from aoti_plugins.cuda.bags import op
    from aoti_plugins.lowering.decompositions.embedding_bag import Bags

    arguments = bags(*case)
    if case[2] == "no places":  # what is no place of an index is left out
        expected_of = list(arguments)
        expected_of[2] = arguments[2].clamp(0, 41)
        expected = _one_by_one(*expected_of)
    else:
        expected = torch.ops.aoti_plugins.reduce_bags.default(*arguments)
    moved = [x.to(device) if isinstance(x, torch.Tensor) else x for x in arguments]
    values, chosen = op.by_kernels(Bags(*moved))
    if not torch.equal(chosen.cpu(), expected[1]):
        return float("inf")
    difference = values.cpu().double() - expected[0].double()
    return difference.abs().max().item() if difference.numel() else 0.0


def _one_by_one(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    weight, indices, offsets, count, *_, is_max = arguments
    ends = [*offsets[1:].tolist(), len(indices)]
    found = weight.new_zeros(count, weight.size(1))
    chosen = indices.new_zeros(count, weight.size(1)) if is_max else indices.new_empty(0)
    for bag, (start, end) in enumerate(zip(offsets.tolist(), ends, strict=True)):
        rows = weight[indices[start:end]]
        if len(rows) and is_max:
            found[bag], places = rows.max(0)
            chosen[bag] = indices[start:end][places]
        elif len(rows):
            found[bag] = rows.sum(0)
    return found, chosen


if __name__ == "__main__":
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
        sys.path.insert(0, str(Path(__file__).parent.parent / "cuda_attention"))
        from attention_cases import index_by_scalars

        index_by_scalars()
    errors = {name: error_of(case, device) for name, case in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(errors))
