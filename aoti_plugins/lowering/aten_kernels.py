"""Declare the runtimes' own kernels for ATen ops, whose C shims are PyTorch's.

Must match ``native/src/``: dtypes are those that the runtimes' tests cover.
"""

from __future__ import annotations

from aoti_plugins.types import CShim, FallbackKernel

FLOATS = ("float16", "float32", "float64", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
NUMBERS = FLOATS + INTEGERS

RECURRENT_LAYER = "aoti_plugins::recurrent_layer"

# Parameters of the shims, equal for all devices: torch/csrc/inductor/aoti_torch/generated/.
_PARAMETERS = {
    "aten::mm.out": ("AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2"),
    "aten::addmm.out": (
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, "
        "AtenTensorHandle mat2, double beta, double alpha"
    ),
    "aten::bmm.out": ("AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2"),
    "aten::baddbmm.out": (
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle batch1, "
        "AtenTensorHandle batch2, double beta, double alpha"
    ),
    "aten::convolution": (
        "AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, "
        "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t padding_len_, "
        "const int64_t* dilation, int64_t dilation_len_, int32_t transposed, "
        "const int64_t* output_padding, int64_t output_padding_len_, int64_t groups, "
        "AtenTensorHandle* ret0"
    ),
    "aten::cumsum": ("AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0"),
    "aten::cumprod": ("AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0"),
    "aten::histc": (
        "AtenTensorHandle self, int64_t bins, double min, double max, AtenTensorHandle* ret0"
    ),
    "aten::sort": (
        "AtenTensorHandle self, int64_t dim, int32_t descending, AtenTensorHandle* ret0, "
        "AtenTensorHandle* ret1"
    ),
    "aten::sort.stable": (
        "AtenTensorHandle self, int32_t* stable, int64_t dim, int32_t descending, "
        "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
    ),
    "aten::topk": (
        "AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest, int32_t sorted, "
        "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
    ),
    "aten::scatter.src_out": (
        "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index, "
        "AtenTensorHandle src"
    ),
    "aten::scatter.value_out": (
        "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index, "
        "double value"
    ),
    "aoti_plugins::small_weight_linear": (
        "AtenTensorHandle x, AtenTensorHandle weight, AtenTensorHandle scale, "
        "AtenTensorHandle* zero, AtenTensorHandle* bias, int64_t bits, int64_t group_size, "
        "int64_t zero_kind, AtenTensorHandle* ret0"
    ),
    "aten::scatter_reduce.two_out": (
        "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index, "
        "AtenTensorHandle src, const char* reduce, int32_t include_self"
    ),
    # Our own: native/include/aoti_plugins/recurrent_shims.h.
    RECURRENT_LAYER: (
        "AtenTensorHandle inputs, AtenTensorHandle hidden, AtenTensorHandle* cell, "
        "AtenTensorHandle weight, AtenTensorHandle* bias, int64_t kind, int32_t reverse, "
        "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2"
    ),
}


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
        KeyError: the op's shim is not declared here.
    """
    name = f"aoti_torch_{device}_{op.split('::')[1].replace('.', '_')}"
    declaration = f"AOTITorchError {name}({_PARAMETERS[op]})"
    return FallbackKernel(op=op, c_shims=(CShim(name, declaration),), dtypes=dtypes)
