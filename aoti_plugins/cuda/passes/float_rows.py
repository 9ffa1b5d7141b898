"""Products of one row with weights of floats of 8 and 4 bits read these, and no matrix.

What ``float_linears`` leaves: rows of float16 and float32, weights in other use. Inductor writes
such a weight as 16-bit floats and has a library multiply it: five bytes for each of one.
"""

from __future__ import annotations

import math

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.program_constants import add_constant, constant_of
from aoti_plugins.lowering.small_weights.float_weights import FloatWeight, product_of_floats

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def float_rows(program: ExportedProgram) -> None:
    """Replace them by ``aoti_plugins::float_row``, in place; expects ATen ops.

    Those in the outermost graph whose weight is a constant without NaN of E4M3, of which the kernel
    would make a number.
    """
    for node in list(program.graph.nodes):
        if not _is_one_row(node):
            continue
        found = product_of_floats(program, node)
        if found is None:
            continue
        (x, _, bias), (codes, _, _, kind) = found
        if kind.endswith("e4m3") and _has_nan(program, codes):
            continue
        # The op needs triton where it is registered, so not before it is used.
        import aoti_plugins.cuda.float_row.op  # noqa: F401

        op = torch.ops.aoti_plugins.float_row.default
        call_instead(node, op, x, codes, *_scales(program, found[1]), bias, kind)
    program.graph.eliminate_dead_code()


def _is_one_row(product: Node) -> bool:
    value = product.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in _FLOATS:
        return False
    rows = math.prod(value.shape[:-1])
    return isinstance(rows, int) and rows == 1


def _scales(program: ExportedProgram, weight: FloatWeight) -> tuple[Node | None, Node | None]:
    """Of groups and of rows.

    What all of a weight is multiplied by is one for each row, too: as a number it would be part of
    the code, which layers would have to have each for itself.
    """
    codes, scale, whole, kind = weight
    n = codes.meta["val"].size(0)
    if kind.startswith("mx_"):
        return scale, None
    if kind != "nvfp4":
        return None, scale
    return scale, add_constant(program, f"{codes.name}_whole", torch.full((n, 1), whole))


def _has_nan(program: ExportedProgram, codes: Node) -> bool:
    value = constant_of(program, codes)
    return value is None or bool(((value.view(torch.uint8) & 0x7F) == 0x7F).any())
