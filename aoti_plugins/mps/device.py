"""The GPUs of Macs as a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aoti_plugins.device import Device, later, later_value
from aoti_plugins.lowering.aten_kernels import INTEGERS, RECURRENT_LAYER, usual_kernels
from aoti_plugins.lowering.passes import own_pass
from aoti_plugins.mps.target import DEFAULT_TARGET, TARGETS
from aoti_plugins.native_files import CORE, on_core

INDUCTOR_OPTIONS: Mapping[str, Any] = {
    "max_autotune": False,
    # Computes with weights on the device, which need not be there.
    "joint_graph_constant_folding": False,
    # Strides are the program's own: Metal's kernels gain nothing from padded ones.
    "padding_stride_threshold": float("inf"),
    # The runtime's convolutions give row-major results.
    "layout_optimization": False,
    # Inductor compiles nothing here that its worker processes could help with.
    "compile_threads": 1,
}

_FLOATS = ("float16", "float32", "bfloat16")
_EIGHT_BITS = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)


MPS = Device(
    name="mps",
    backend=later_value("aoti_plugins.mps.backend:AotiMpsBackend"),
    partitioner=later_value("aoti_plugins.mps.partitioner:MpsPartitioner"),
    # On a Mac the core is in it.
    libraries=on_core("libexecutorch_backend_aoti_mps.so") or (CORE,),
    targets=lambda: TARGETS,
    default_target=lambda: DEFAULT_TARGET,
    torch_device="mps:0",
    environment=later("aoti_plugins.mps.lowering:environment"),
    probe_environment=later("aoti_plugins.mps.lowering:environment"),
    check_tools=later("aoti_plugins.mps.lowering:check_tools"),
    decompositions=later_value("aoti_plugins.lowering.decompositions:MPS_DECOMPOSITIONS"),
    kernels={
        **usual_kernels(_FLOATS, products=(*_FLOATS, *INTEGERS)),
        RECURRENT_LAYER: _FLOATS,
        "aoti_plugins::gguf_linear": _FLOATS,
        "aoti_plugins::small_linear": _FLOATS,
    },
    passes=lambda options: [
        own_pass("mps", "attention_to_metal", after="restore_views"),
        own_pass("lowering", "gguf_linears", after="gathered_rows"),
        own_pass("lowering", "scaled_products", after="gathered_rows"),
        own_pass("mps", "small_linears", after="scaled_products"),
    ],
    inductor_options=lambda options: INDUCTOR_OPTIONS,
    missing_dtypes={
        "float64": "Metal has no float64",
        **dict.fromkeys(_EIGHT_BITS, "Metal has no floats of eight bits"),
    },
    headers=later("aoti_plugins.mps.lowering:headers"),
    build=later("aoti_plugins.mps.lowering:build"),
    features=later("aoti_plugins.mps.lowering:features"),
)
