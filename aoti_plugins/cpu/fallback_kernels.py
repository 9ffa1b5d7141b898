"""Kernels that the CPU runtime brings for ops that Inductor does not generate.

Must match native/src/cpu/.
"""

from __future__ import annotations

from aoti_plugins.types import CShim, FallbackKernel

_FLOATS = ("float16", "float32", "float64", "bfloat16")
_INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
_NUMBERS = _FLOATS + _INTEGERS
_REAL = (*_NUMBERS, "bool")


def _kernel(op: str, dtypes: tuple[str, ...], parameters: str) -> FallbackKernel:
    name = f"aoti_torch_cpu_{op.split('::')[1].replace('.', '_')}"
    return FallbackKernel(
        op=op, c_shims=(CShim(name, f"AOTITorchError {name}({parameters})"),), dtypes=dtypes
    )


KERNELS = (
    _kernel(
        "aten::mm.out",
        _NUMBERS,
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    _kernel(
        "aten::addmm.out",
        _NUMBERS,
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, "
        "AtenTensorHandle mat2, double beta, double alpha",
    ),
    _kernel(
        "aten::bmm.out",
        _NUMBERS,
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    _kernel(
        "aten::baddbmm.out",
        _NUMBERS,
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle batch1, "
        "AtenTensorHandle batch2, double beta, double alpha",
    ),
    _kernel(
        "aten::convolution",
        _FLOATS,
        "AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, "
        "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t padding_len_, "
        "const int64_t* dilation, int64_t dilation_len_, int32_t transposed, "
        "const int64_t* output_padding, int64_t output_padding_len_, int64_t groups, "
        "AtenTensorHandle* ret0",
    ),
    _kernel(
        "aten::cumsum",
        _REAL,
        "AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0",
    ),
    _kernel(
        "aten::cumprod",
        _REAL,
        "AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0",
    ),
    _kernel(
        "aten::sort",
        _REAL,
        "AtenTensorHandle self, int64_t dim, int32_t descending, AtenTensorHandle* ret0, "
        "AtenTensorHandle* ret1",
    ),
    _kernel(
        "aten::sort.stable",
        _REAL,
        "AtenTensorHandle self, int32_t* stable, int64_t dim, int32_t descending, "
        "AtenTensorHandle* ret0, AtenTensorHandle* ret1",
    ),
    _kernel(
        "aten::topk",
        _REAL,
        "AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest, int32_t sorted, "
        "AtenTensorHandle* ret0, AtenTensorHandle* ret1",
    ),
    _kernel(
        "aten::scatter.src_out",
        _REAL,
        "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index, "
        "AtenTensorHandle src",
    ),
    _kernel(
        "aten::scatter.value_out",
        _REAL,
        "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index, "
        "double value",
    ),
    _kernel(
        "aten::scatter_reduce.two_out",
        _REAL,
        "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index, "
        "AtenTensorHandle src, const char* reduce, int32_t include_self",
    ),
)
"""What the runtime brings; dtypes as its tests cover them."""
