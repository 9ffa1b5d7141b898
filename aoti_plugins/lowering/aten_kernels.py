"""Declare the runtimes' own kernels for ATen ops, whose C shims are PyTorch's.

Names and parameters come from the runtimes' own list, ``include/aoti_plugins/operators.inc``;
dtypes are those that the runtimes' tests cover.
"""

from __future__ import annotations

import functools
import re

from aoti_plugins import native_files
from aoti_plugins.types import CShim, FallbackKernel

FLOATS = ("float16", "float32", "float64", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
NUMBERS = FLOATS + INTEGERS

# What NCCL computes with.
_REDUCED = ("float16", "float32", "float64", "bfloat16", "uint8", "int8", "int32", "int64")
COLLECTIVES: dict[str, tuple[str, ...]] = {
    "aoti_plugins::all_reduce": _REDUCED,
    "aoti_plugins::reduce_scatter": _REDUCED,
    "aoti_plugins::all_gather": (),
    "aoti_plugins::all_to_all": (),
    "aoti_plugins::broadcast": (),
}
"""Collectives that runtimes have, each with its dtypes; none: whatever it is, it is moved."""

RECURRENT_LAYER = "aoti_plugins::recurrent_layer"

_OPERATOR = re.compile(
    r'^AOTIP_(?:\w+_)?OPERATOR\(\w+,\s*"([^"]+)",\s*\(([^()]*)\)\)', re.MULTILINE
)


@functools.cache
def _parameters() -> dict[str, str]:
    """The parameters of each operator's C shim, equal for all devices that have it, by its op."""
    text = (native_files.include_dir() / "aoti_plugins" / "operators.inc").read_text("utf-8")
    return {op: " ".join(parameters.split()) for op, parameters in _OPERATOR.findall(text)}


def usual_kernels(floats: tuple[str, ...], products: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The ops that each of our runtimes has kernels for, with their dtypes.

    Args:
        floats: the device's floating-point dtypes.
        products: what its matrix products take.
    """
    real = (*floats, *INTEGERS, "bool")
    return {
        **dict.fromkeys(
            ("aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::baddbmm.out"), products
        ),
        "aten::convolution": floats,
        **dict.fromkeys(
            (
                "aten::cumsum",
                "aten::cumprod",
                "aten::sort",
                "aten::sort.stable",
                "aten::topk",
                "aten::scatter.src_out",
                "aten::scatter.value_out",
                "aten::scatter_reduce.two_out",
            ),
            real,
        ),
    }


def aten_kernel(device: str, op: str, dtypes: tuple[str, ...]) -> FallbackKernel:
    """A kernel that a device's runtime has for an op.

    Args:
        device: PyTorch's name for the device, as in the names of C shims.
        op: schema name, such as ``aten::mm.out``.
        dtypes: what the kernel takes.

    Raises:
        KeyError: no device has a shim for the op.
    """
    name = f"aoti_torch_{device}_{op.split('::')[1].replace('.', '_')}"
    declaration = f"AOTITorchError {name}({_parameters()[op]})"
    return FallbackKernel(op=op, c_shims=(CShim(name, declaration),), dtypes=dtypes)
