"""Attention problems for tests: run as a script, it computes them all.

    python attention_cases.py OUTPUT.json              # in Triton's interpreter
    python attention_cases.py OUTPUT.json --few        # the same of FEW
    python attention_cases.py OUTPUT.json --on-gpu     # on this machine's GPU

Tensors lie inside larger ones that are filled with NaN, so that a kernel that reads too much shows
it, and the surroundings of the result are compared afterwards.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# Masks whose tiles are made first, as attentions that share them have it.
SHARED = ("lower", "window", "added_window", "queries")
TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


@dataclass(frozen=True)
class Case:
    """One attention.

    ``mask`` is "", "bool", "added", "row", "rows_empty", "none_left", "all_left", "lowest" (the
    lowest number is added everywhere), "queries" (each attends to all or to nothing), or "lower",
    "window" and "added_window": prompts behind ``kv_len - q_len`` keys, the last two with 100 keys
    at most, "added" for some heads.

    ``layout`` gives the order of the dimensions in memory, batch, heads, rows, elements, and the
    gap between elements. ``config`` overrides the choice: "decode" with its numbers, or "either"
    with the most queries that are few.
    """

    batch: int = 1
    heads: int = 2
    kv_heads: int = 2
    q_len: int = 40
    kv_len: int = 72
    head_dim: int = 64
    v_head_dim: int = 0
    dtype: str = "float16"
    causal: bool = False
    mask: str = ""
    scale: float = 0.0
    layout: str = "bshd"
    dims: int = 4
    kv_batch: int = 0
    config: tuple[Any, ...] = ()


CASES = {
    # Prefill: lengths around tile borders, causal with equal and different lengths.
    "one_block": Case(q_len=65, kv_len=65),
    "even": Case(q_len=128, kv_len=128, causal=True),
    "odd": Case(q_len=131, kv_len=77, batch=2),
    "causal": Case(q_len=130, kv_len=130, causal=True),
    "causal_more_keys": Case(q_len=70, kv_len=150, causal=True),
    "causal_more_queries": Case(q_len=150, kv_len=70, causal=True),
    "one_key": Case(q_len=70, kv_len=1, causal=True),
    "float32": Case(q_len=70, kv_len=90, dtype="float32"),
    "float32_causal": Case(q_len=70, kv_len=64, dtype="float32", causal=True),
    "float32_even": Case(q_len=70, kv_len=64, dtype="float32"),
    "float32_wide": Case(q_len=70, kv_len=40, dtype="float32", head_dim=256),
    "bfloat16": Case(q_len=100, kv_len=100, dtype="bfloat16", causal=True),
    # Head sizes.
    "head_16": Case(q_len=70, head_dim=16),
    "head_32": Case(q_len=70, head_dim=32, causal=True),
    "head_40": Case(q_len=70, head_dim=40),
    "head_80": Case(q_len=70, head_dim=80, causal=True),
    "head_96": Case(q_len=70, head_dim=96, dtype="bfloat16"),
    "head_100": Case(q_len=70, head_dim=100, dtype="float32"),
    "head_128": Case(q_len=70, head_dim=128, causal=True),
    "head_192": Case(q_len=70, head_dim=192),
    "head_256": Case(q_len=70, head_dim=256, causal=True),
    "value_wider": Case(q_len=70, head_dim=64, v_head_dim=96),
    "value_narrower": Case(q_len=70, head_dim=192, v_head_dim=128, causal=True),
    # Masks.
    "bool": Case(q_len=70, kv_len=100, mask="bool"),
    "bool_even": Case(q_len=64, kv_len=128, mask="bool", batch=2),
    "added": Case(q_len=70, kv_len=100, mask="added", dtype="bfloat16"),
    "added_float32": Case(q_len=70, kv_len=100, mask="added", dtype="float32"),
    "row": Case(q_len=70, kv_len=200, mask="row", batch=2),
    "rows_empty": Case(q_len=70, kv_len=100, mask="rows_empty"),
    "none_left": Case(q_len=70, kv_len=100, mask="none_left"),
    "none_left_float32": Case(q_len=70, kv_len=100, mask="none_left", dtype="float32"),
    "lowest": Case(q_len=70, kv_len=100, mask="lowest", dtype="bfloat16"),
    "lowest_float32": Case(q_len=70, kv_len=100, mask="lowest", dtype="float32"),
    "decode_lowest": Case(q_len=1, kv_len=300, mask="lowest", dtype="bfloat16"),
    "all_left": Case(q_len=70, kv_len=100, mask="all_left"),
    "queries": Case(q_len=140, kv_len=140, mask="queries"),
    "lower": Case(q_len=200, kv_len=500, mask="lower", batch=2),
    "lower_even": Case(q_len=256, kv_len=512, mask="lower", head_dim=128, dtype="bfloat16"),
    "lower_float32": Case(q_len=100, kv_len=320, mask="lower", dtype="float32"),
    "lower_causal": Case(q_len=200, kv_len=300, mask="window", causal=True),
    "window": Case(q_len=300, kv_len=450, mask="window", heads=4, kv_heads=2),
    "added_window": Case(q_len=300, kv_len=450, mask="added_window", heads=3, kv_heads=1),
    "window_far": Case(q_len=70, kv_len=9000, mask="window", head_dim=16, heads=1, kv_heads=1),
    "many_pairs": Case(q_len=130, kv_len=130, heads=6, kv_heads=2, batch=4, mask="lower"),
    "many_pairs_causal": Case(q_len=140, kv_len=140, heads=5, kv_heads=5, batch=7, causal=True),
    # Grouped heads, layouts, other numbers of dimensions.
    "grouped": Case(q_len=70, heads=6, kv_heads=2, causal=True),
    "one_kv_head": Case(q_len=70, heads=4, kv_heads=1, batch=2),
    "heads_first": Case(q_len=70, layout="bhsd"),
    "rows_first": Case(q_len=70, layout="sbhd"),
    "elements_apart": Case(q_len=70, layout="bhsd2", mask="bool"),
    "transposed": Case(q_len=70, layout="bhds"),
    "three_dims": Case(q_len=70, batch=1, heads=3, kv_heads=3, dims=3, mask="added"),
    "two_dims": Case(q_len=70, batch=1, heads=1, kv_heads=1, dims=2, mask="bool"),
    "shared_batch": Case(q_len=70, batch=3, kv_batch=1),
    "scale": Case(q_len=70, scale=0.5),
    # Decode.
    "decode": Case(q_len=1, kv_len=1000),
    "decode_short": Case(q_len=1, kv_len=3, batch=2),
    "decode_float32": Case(q_len=1, kv_len=300, dtype="float32"),
    "decode_bfloat16": Case(q_len=1, kv_len=513, head_dim=80, dtype="bfloat16"),
    "decode_causal": Case(q_len=1, kv_len=300, causal=True),
    "decode_bool": Case(q_len=1, kv_len=700, mask="bool", batch=2),
    "decode_added": Case(q_len=1, kv_len=700, mask="added", layout="bhsd2"),
    "decode_row": Case(q_len=1, kv_len=700, mask="row"),
    "decode_none_left": Case(q_len=1, kv_len=300, mask="none_left"),
    "decode_grouped": Case(q_len=1, kv_len=1000, heads=8, kv_heads=2, batch=2),
    "decode_grouped_bfloat16": Case(
        q_len=1, kv_len=600, heads=10, kv_heads=2, head_dim=128, dtype="bfloat16"
    ),
    "decode_few": Case(q_len=5, kv_len=400, heads=6, kv_heads=2, causal=True),
    "decode_few_causal_long": Case(q_len=64, kv_len=400, heads=1, kv_heads=1, causal=True),
    "decode_few_masked": Case(q_len=4, kv_len=300, heads=6, kv_heads=2, mask="rows_empty"),
    "decode_few_float32": Case(q_len=3, kv_len=300, heads=4, kv_heads=2, dtype="float32"),
    "decode_head_256": Case(q_len=2, kv_len=300, head_dim=256),
    "decode_value_narrower": Case(q_len=1, kv_len=300, head_dim=192, v_head_dim=128),
    "decode_tiles": Case(
        q_len=50, kv_len=300, heads=2, kv_heads=1, config=("decode", 16, 32, 3, 4, 2)
    ),
    "decode_more_splits_than_blocks": Case(
        q_len=1, kv_len=40, heads=4, kv_heads=2, config=("decode", 16, 16, 7, 4, 2)
    ),
    "decode_one_split": Case(q_len=1, kv_len=200, config=("decode", 1, 32, 1, 4, 1)),
    # The number of queries decides at run time.
    "either_few": Case(q_len=4, kv_len=200, heads=8, kv_heads=2, config=("either", 4)),
    "either_one": Case(q_len=1, kv_len=200, causal=True, config=("either", 4)),
    "either_many": Case(q_len=5, kv_len=200, heads=8, kv_heads=2, config=("either", 4)),
    # Nothing to do, and nothing to attend to.
    "no_batch": Case(batch=0, q_len=70),
    "no_queries": Case(q_len=0),
    "no_keys": Case(q_len=70, kv_len=0),
    "decode_no_keys": Case(q_len=1, kv_len=0),
}

# One of each kind: what takes the interpreter least.
FEW = (
    *("even", "odd", "causal", "causal_more_keys", "one_key", "float32_causal", "bfloat16"),
    *("head_16", "head_80", "head_256", "value_narrower", "bool", "added", "rows_empty"),
    *("none_left", "lowest", "queries", "lower_causal", "grouped", "elements_apart", "two_dims"),
    *("shared_batch", "decode", "decode_causal", "decode_none_left", "decode_few_masked"),
    *("decode_grouped_bfloat16", "decode_one_split", "either_few", "either_many"),
    *("no_batch", "no_queries", "no_keys", "decode_no_keys"),
)


def tensors(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Query, key, value and mask."""
    dtype = getattr(torch, case.dtype)
    kv_batch = case.kv_batch or case.batch
    v_head_dim = case.v_head_dim or case.head_dim
    query = inside((case.batch, case.heads, case.q_len, case.head_dim), case.layout, dtype)
    key = inside((kv_batch, case.kv_heads, case.kv_len, case.head_dim), case.layout, dtype)
    value = inside((kv_batch, case.kv_heads, case.kv_len, v_head_dim), case.layout, dtype)
    for tensor in (query, key, value):
        tensor.normal_()
    mask = _mask(case, dtype)
    drop = 4 - case.dims
    return query[(0,) * drop], key[(0,) * drop], value[(0,) * drop], mask


def inside(shape: tuple[int, ...], layout: str, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of four dimensions within a larger one that is full of NaN (or true)."""
    step = 2 if layout.endswith("2") else 1
    order = ["bhsd".index(letter) for letter in layout.rstrip("2")]
    outer = [shape[dim] * (step if dim == 3 else 1) + 4 for dim in order]
    whole = torch.full(outer, True if dtype == torch.bool else math.nan, dtype=dtype)
    view = whole.permute([order.index(dim) for dim in range(4)])
    for dim, size in enumerate(shape):
        view = view.narrow(dim, 2, size * (step if dim == 3 else 1))
    return view[..., ::step]


def _mask(case: Case, dtype: torch.dtype) -> torch.Tensor | None:
    if not case.mask:
        return None
    if case.mask == "added":
        mask = inside((1, case.heads, case.q_len, case.kv_len), "bhsd", dtype)
        mask.normal_()
        mask[..., : case.kv_len // 3] = -math.inf
        return mask[(0,) * (4 - case.dims)]
    if case.mask == "lowest":
        return torch.full((1, 1, case.q_len, case.kv_len), torch.finfo(dtype).min, dtype=dtype)
    if case.mask == "row":  # padding: as many keys as each sequence has
        keys = torch.arange(case.kv_len)
        lengths = torch.arange(1, case.batch + 1) * case.kv_len // (case.batch + 2)
        return (keys < lengths[:, None])[:, None, None]
    if case.mask == "queries":
        return (torch.arange(case.q_len) % 3 != 0)[None, None, :, None]
    if case.mask in ("lower", "window", "added_window"):
        return _lower(case, dtype)
    mask = inside((case.batch, 1, case.q_len, case.kv_len), "bhsd", torch.bool)
    mask.copy_(torch.rand(mask.shape) > 0.5)
    if case.mask == "rows_empty":
        mask[:, :, case.q_len // 2 :: 3] = False
    if case.mask in ("none_left", "all_left"):
        mask.fill_(case.mask == "all_left")
    return mask[(0,) * (4 - case.dims)]


def _lower(case: Case, dtype: torch.dtype) -> torch.Tensor:
    last = torch.arange(case.q_len)[:, None] + case.kv_len - case.q_len
    keys = torch.arange(case.kv_len)
    allowed = keys <= last
    if case.mask != "lower":
        allowed &= keys > last - 100
    if case.mask != "added_window":
        mask = inside((case.batch, 1, case.q_len, case.kv_len), "bhsd", torch.bool)
        return mask.copy_(allowed)
    mask = inside((1, case.heads, case.q_len, case.kv_len), "bhsd", dtype)
    mask.normal_()
    mask[:, ::2] = 0
    return mask.masked_fill_(~allowed, -math.inf)


def scale_of(case: Case) -> float:
    return case.scale or case.head_dim**-0.5


def error_of(case: Case) -> float:
    """Largest difference between kernels and math form; infinite if they write too much."""
    from aoti_plugins.cuda.attention import launch

    torch.manual_seed(0)
    query, key, value, mask = tensors(case)
    shared = mask is not None and case.mask in SHARED
    tiles = launch.mask_tiles(mask) if shared else None
    call = launch.Call(query, key, value, mask, case.causal, scale_of(case), tiles)
    shape = (case.batch, case.heads, case.q_len, case.v_head_dim or case.head_dim)
    out = inside(shape, case.layout, query.dtype)
    around = out._base.isnan().sum().item() - out.numel()
    launch.run(call, out[(0,) * (4 - case.dims)], _config(case))
    if out.isnan().any() or out._base.isnan().sum().item() != around:
        return math.inf
    both = case.causal and mask is not None  # PyTorch takes one of them
    if both:
        mask = mask & torch.ones(case.q_len, case.kv_len, dtype=torch.bool).tril()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = torch.nn.functional.scaled_dot_product_attention(
            query.double(),
            _for_each_batch(key, query).double(),
            _for_each_batch(value, query).double(),
            mask if mask is None or mask.dtype == torch.bool else mask.double(),
            is_causal=case.causal and not both,
            scale=scale_of(case),
            enable_gqa=case.heads != case.kv_heads,
        )
    return (out.double() - expected).abs().max().item() if out.numel() else 0.0


def wrong_tiles(case: Case) -> int:
    """Tiles of the case's mask for which the kernel says another thing than the op on a CPU."""
    from aoti_plugins.cuda.attention import launch, op

    torch.manual_seed(0)
    mask = tensors(case)[3]
    if mask is None or not mask.numel():
        return 0
    on_cpu = op.mask_tiles(mask.cpu())
    return int((launch.mask_tiles(mask).cpu() != on_cpu).sum())


def _config(case: Case) -> Any:
    from aoti_plugins.cuda.attention.config import DecodeConfig, EitherConfig, PrefillConfig

    if not case.config:
        return None
    kind, *numbers = case.config
    if kind == "decode":
        return DecodeConfig(*numbers)
    return EitherConfig(DecodeConfig(16, 32, 3, 4, 2), PrefillConfig(64, 32, 4, 2), *numbers)


def _for_each_batch(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return tensor.expand(*query.shape[:-3], *tensor.shape[-3:]) if query.dim() > 3 else tensor


def index_by_scalars() -> None:
    """Triton 3.6's interpreter makes a loop bound of an array of one element; numpy 2.4 refuses."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patch(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch


def multiply_bfloat16() -> None:
    """Triton's interpreter multiplies the bit patterns of bfloat16; give it their values."""
    import numpy as np
    from triton import language as tl
    from triton.runtime import interpreter

    original = interpreter.InterpreterBuilder.create_dot

    def widen(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        data = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(data, tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *others: Any) -> Any:
        return original(self, widen(a), widen(b), *others)

    interpreter.InterpreterBuilder.create_dot = create_dot


def errors_of(names: Iterable[str]) -> dict[str, float]:
    """The error of each case; infinite also where the tiles of a mask are wrong."""
    chosen = {name: CASES[name] for name in names}
    return {name: math.inf if wrong_tiles(one) else error_of(one) for name, one in chosen.items()}


def errors_on_gpu(names: Iterable[str]) -> dict[str, float]:
    """The errors of kernels that are compiled and configured for this machine's GPU."""
    from aoti_plugins.cuda.attention.target import AttentionTarget, attention_target

    gpu = torch.cuda.get_device_properties(0)
    target = AttentionTarget(
        (gpu.major, gpu.minor), gpu.multi_processor_count, gpu.shared_memory_per_block_optin
    )
    with attention_target(target), torch.device("cuda"):
        return errors_of(names)


def errors_in_interpreter(names: Iterable[str]) -> dict[str, float]:
    """The errors of kernels that Triton interprets, configured for the default target."""
    os.environ["TRITON_INTERPRET"] = "1"
    index_by_scalars()
    multiply_bfloat16()
    return errors_of(names)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--on-gpu", action="store_true")
    chosen = parser.parse_args()
    names = FEW if chosen.few else tuple(CASES)
    errors = errors_on_gpu(names) if chosen.on_gpu else errors_in_interpreter(names)
    chosen.output.write_text(json.dumps(errors))
    wrong = [n for n, error in errors.items() if not error < TOLERANCE[CASES[n].dtype]]
    print("wrong:", ", ".join(wrong) or "none")


if __name__ == "__main__":
    main()
