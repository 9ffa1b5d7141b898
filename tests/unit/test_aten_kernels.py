"""Calls of the runtimes' kernels are declared as the runtimes' own list has them."""

from __future__ import annotations

import pytest

from aoti_plugins import native_files
from aoti_plugins.lowering.aten_kernels import aten_kernel
from aoti_plugins.plugin_system.devices import delegates


def test_every_kernel_of_a_device_is_in_the_list() -> None:
    text = (native_files.include_dir() / "aoti_plugins" / "operators.inc").read_text()
    for device in delegates().values():
        for op, dtypes in device.kernels.items():
            kernel = aten_kernel(device.torch_type, op, dtypes)
            (shim,) = kernel.c_shims
            name = shim.name.removeprefix(f"aoti_torch_{device.torch_type}_")
            lists = {"AOTIP_OPERATOR", f"AOTIP_{device.torch_type.upper()}_OPERATOR"}
            assert any(f"{one}({name}," in text for one in lists), shim.name


def test_parameters_are_those_of_pytorch() -> None:
    (shim,) = aten_kernel("cuda", "aten::cumsum", ("float32",)).c_shims
    assert shim.declaration == (
        "AOTITorchError aoti_torch_cuda_cumsum(AtenTensorHandle self, int64_t dim, int32_t* dtype, "
        "AtenTensorHandle* ret0)"
    )
    with pytest.raises(KeyError):
        aten_kernel("cuda", "aten::no_such_op", ("float32",))
