"""Bags that the kernels reduce, compared with PyTorch's.

    python bag_cases.py RESULT [cuda]

Interpreted by Triton on the CPU unless ``cuda`` is said. Writes the largest difference by case.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch

DTYPES = {
    "float32": (torch.float32, 3e-5),
    "float64": (torch.float64, 1e-12),
    "float16": (torch.float16, 2e-2),
    "bfloat16": (torch.bfloat16, 1e-1),
}
MODES = ("sum", "mean", "max")
OFFSETS = {
    "several": [0, 2, 2, 9, 40],
    "one": [0],
    "empty at the end": [0, 41],
    "all at the end": [0, 0, 0, 41],
}
HOWS = ("padding", "last offset", "strided", "short indices")
CASES = {
    f"{dtype}, {width} wide, {offsets}, {mode}, {how}": (dtype, width, offsets, mode, how)
    for dtype, width, offsets, mode, how in [
        *itertools.product(DTYPES, [3], ["several"], MODES, ["plain"]),
        *itertools.product(["float32"], [1, 300], OFFSETS, MODES, ["plain"]),
        *itertools.product(["float32"], [40], ["several"], MODES, HOWS),
        *itertools.product(["float32"], [40], ["several"], ["sum", "max"], ["no rows"]),
        ("float32", 40, "several", "sum", "no places"),
        *itertools.product(DTYPES, [40], ["several"], ["sum"], ["factors"]),
    ]
}


def arguments_of(dtype: str, width: int, offsets: str, mode: str, how: str) -> list[Any]:
    """The arguments of ``aten._embedding_bag``."""
    generator = torch.Generator().manual_seed(width)
    step = 2 if how in ("strided", "factors") else 1
    weight = torch.randn(7 * step, width * step, generator=generator).to(DTYPES[dtype][0])
    indices = torch.randint(0, 7, (41 * step,), generator=generator)[::step]
    starts = torch.tensor([x for one in OFFSETS[offsets] for x in (one,) * step])[::step]
    if how == "short indices":
        indices, starts = indices.int(), starts.int()
    factors = torch.randn(41 * step, generator=generator).to(weight.dtype)[::step]
    is_last = how == "last offset"
    return [
        weight[::step, ::step],
        indices,
        starts,
        False,
        MODES.index(mode),
        False,
        factors if how == "factors" else None,
        is_last,
        2 if how == "padding" else -1,
    ]


def expected_of(arguments: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """What PyTorch's kernel for the CPU gives.

    It may add 16-bit floats up in 16 bits, and reads some tensors as if they had no gaps.
    """
    wide = torch.float64 if arguments[0].dtype == torch.float64 else torch.float32
    given = [x.contiguous() if isinstance(x, torch.Tensor) else x for x in arguments]
    for place, one in enumerate(given):
        if isinstance(one, torch.Tensor) and one.is_floating_point():
            given[place] = one.to(wide)
    values, _, _, chosen = torch.ops.aten._embedding_bag.default(*given)
    return values.to(arguments[0].dtype), chosen


def with_nothing(arguments: list[Any], how: str) -> tuple[list[Any], list[Any]]:
    """The same with places or rows that are not there, and what is left of that."""
    weight, indices, offsets, *others = arguments
    if how == "no places":
        beyond, end = (torch.cat((offsets, torch.tensor([at, at]))) for at in (99, len(indices)))
        return [weight, indices, beyond, *others], [weight, indices, end, *others]
    nothing = indices.clone()
    nothing[5:7] = torch.tensor([len(weight), -1])
    kept = torch.cat((indices[:5], indices[7:]))
    starts = torch.where(offsets > 5, offsets - 2, offsets)
    return [weight, nothing, offsets, *others], [weight, kept, starts, *others]


def error_of(case: tuple[str, int, str, str, str], device: str) -> float:
    """The largest difference of values; infinite where the maximum of another row is chosen."""
    from aoti_plugins.cuda.embedding_bags import op
    from aoti_plugins.lowering.decompositions.embedding_bag import reduced_by

    arguments = arguments_of(*case)
    left = arguments
    if case[-1].startswith("no "):
        arguments, left = with_nothing(arguments, case[-1])
    expected, chosen = expected_of(left)
    moved = [x.to(device) if isinstance(x, torch.Tensor) else x for x in arguments]
    found = reduced_by(op.by_kernels, *moved)
    if case[3] == "max" and not torch.equal(found[3].cpu(), chosen):
        return math.inf
    difference = found[0].cpu().double() - expected.double()
    return difference.abs().max().item() if difference.numel() else 0.0


if __name__ == "__main__":
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
        sys.path.insert(0, str(Path(__file__).parent.parent / "cuda_attention"))
        from attention_cases import index_by_scalars

        index_by_scalars()
    errors = {name: error_of(case, device) for name, case in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(errors))
