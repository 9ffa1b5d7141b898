"""How code for Macs is generated, compiled and linked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.device import check_host_compiler
from aoti_plugins.lowering.artifacts.dylib import MacOs, build_dylib
from aoti_plugins.lowering.artifacts.shared_object import (
    BlobHeaders,
    SharedObject,
    SharedObjectBuild,
    build_shared_object,
)
from aoti_plugins.lowering.artifacts.zig import zig_compiler
from aoti_plugins.lowering.inductor.capture import GeneratedCode
from aoti_plugins.mps.target import DEFAULT_GPU_CORES, minimum_macos
from aoti_plugins.types import Target


@contextlib.contextmanager
def environment(target: Target, options: LoweringOptions) -> Iterator[None]:
    """Patches under which Inductor generates for an Apple GPU, on a Mac and elsewhere."""
    from aoti_plugins.lowering.inductor.gpu.contiguous import contiguous_by_op
    from aoti_plugins.lowering.inductor.gpu.fake_tensors import no_device_init
    from aoti_plugins.lowering.inductor.gpu.indexing import indexing_by_ops
    from aoti_plugins.lowering.inductor.gpu.patterns import patterns_on_cpu
    from aoti_plugins.lowering.inductor.libtorch_only import no_onednn
    from aoti_plugins.lowering.inductor.no_triton import no_triton
    from aoti_plugins.lowering.inductor.vector_isa import vector_isa
    from aoti_plugins.mps.inductor.attention_sizes import sizes_of_attention
    from aoti_plugins.mps.inductor.described import described_apple_gpu, described_macos
    from aoti_plugins.mps.inductor.faults import told_faults
    from aoti_plugins.mps.inductor.literals import literals_of_macos
    from aoti_plugins.mps.inductor.scoped_names import scoped_names
    from aoti_plugins.mps.inductor.sources import small_sources
    from aoti_plugins.mps.inductor.wide_constants import wide_constants

    literals = literals_of_macos if "zig_target" in target.properties else contextlib.nullcontext
    with (
        no_onednn(),
        no_triton(),
        vector_isa("scalar"),
        no_device_init(),
        indexing_by_ops(),
        contiguous_by_op(),
        patterns_on_cpu(),
        described_apple_gpu(options.gpu_cores or DEFAULT_GPU_CORES),
        described_macos(),
        literals(),
        sizes_of_attention(),
        wide_constants(),
        scoped_names(),
        told_faults(),  # before the next one, which looks at what is used
        small_sources(),
    ):
        yield


def headers(target: Target) -> BlobHeaders:
    """PyTorch's wrapper for Metal, and what it leaves to libtorch."""
    del target
    return BlobHeaders(
        preludes=("aoti_plugins/mps_blob_prelude.h",),
        defines=("USE_MPS",),
    )


def build(
    code: GeneratedCode, how: SharedObjectBuild, target: Target, options: LoweringOptions
) -> SharedObject:
    """A dynamic library for a Mac; a target of another system gets a shared object of its own."""
    if "zig_target" not in target.properties:
        return build_shared_object(code, how)
    version = minimum_macos(options.minimum_macos)
    system = MacOs(target.properties["zig_target"], version, options.codesign_identity)
    return build_dylib(code, how, system)


def features(target: Target, code: GeneratedCode, options: LoweringOptions) -> tuple[str, ...]:
    """What a machine must have; must match native/src/mps/."""
    del code
    if "zig_target" not in target.properties:
        return target.features
    return (*target.features, f"macos{minimum_macos(options.minimum_macos)}")


def check_tools(target: Target) -> None:
    """Say what is missing on this machine to lower for a target, before anything is done.

    Raises:
        LoweringError: a compiler is missing; names it and says how to install it.
    """
    if "zig_target" in target.properties:
        zig_compiler(target.properties["zig_target"])
    else:
        check_host_compiler(target)
