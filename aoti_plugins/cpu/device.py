"""The CPU as a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cpu import target as cpu_target
from aoti_plugins.device import Device, later, later_value
from aoti_plugins.lowering.aten_kernels import (
    COLLECTIVES,
    FLOATS,
    NUMBERS,
    RECURRENT_LAYER,
    usual_kernels,
)
from aoti_plugins.lowering.passes import own_pass
from aoti_plugins.native_files import on_core
from aoti_plugins.types import GraphPass

# Thread counts are decided where the program runs; what is fixed here only steers how loops are
# cut, and makes the code independent of the machine that lowers.
_ASSUMED_THREADS = 8

INDUCTOR_OPTIONS: Mapping[str, Any] = {
    "cpp.dynamic_threads": True,
    "cpp.threads": _ASSUMED_THREADS,
    # Starting threads costs microseconds; a chunk below this many elements is faster on one.
    "cpp.min_chunk_size": 16384,
    # oneDNN's packed weights and fused ops exist only inside libtorch.
    "cpp.weight_prepack": False,
    # Inductor compiles nothing here that its worker processes could help with.
    "compile_threads": 1,
}


def _passes(options: LoweringOptions) -> Iterable[GraphPass]:
    """Convolutions and products with small weights to the runtime's kernels; the exact ``erf``."""
    del options
    own = partial(own_pass, "cpu")
    yield own("folded_norms", after="restore_views")
    yield own("ended_convolutions", after="folded_norms")
    yield own("quantized_convolutions", after="restore_views", before="ended_convolutions")
    yield own("pools_of_numbers", after="restore_views", before="ended_convolutions")
    yield own_pass("lowering", "gguf_linears", after="gathered_rows")
    yield own("float_linears", after="gathered_rows")
    yield own_pass("lowering", "scaled_products", after="gathered_rows")
    yield own("small_linears", after="scaled_products")
    yield own("small_erf", after="restore_views")


CPU = Device(
    name="cpu",
    backend=later_value("aoti_plugins.cpu.backend:AotiCpuBackend"),
    partitioner=later_value("aoti_plugins.cpu.partitioner:CpuPartitioner"),
    libraries=on_core(),
    targets=lambda: cpu_target.TARGETS,
    default_target=cpu_target.default_target,
    aliases={cpu_target.NATIVE: cpu_target.native_target},
    environment=later("aoti_plugins.cpu.lowering:environment"),
    probe_environment=later("aoti_plugins.cpu.lowering:environment"),
    check_target=later("aoti_plugins.cpu.lowering:check_target"),
    decompositions=later_value("aoti_plugins.lowering.decompositions:CPU_DECOMPOSITIONS"),
    kernels={
        **COLLECTIVES,
        **usual_kernels(FLOATS, products=NUMBERS),
        RECURRENT_LAYER: FLOATS,
        "aoti_plugins::clamped_convolution": ("float32",),
        "aoti_plugins::activated_convolution": ("float32",),
        "aoti_plugins::quantized_convolution": ("int8",),
        "aoti_plugins::float_linear": ("float32", "float16", "bfloat16"),
        "aoti_plugins::gguf_linear": ("float32", "float16", "bfloat16"),
        "aoti_plugins::small_linear": ("float32", "float16", "bfloat16", "int8"),
    },
    passes=_passes,
    inductor_options=lambda options: INDUCTOR_OPTIONS,
)
