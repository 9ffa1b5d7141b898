"""Decides which nodes of a program the CPU delegate takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from aoti_plugins.cpu.device import CPU
from aoti_plugins.lowering.partitioner import DevicePartitioner

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec


@final
class CpuPartitioner(DevicePartitioner):
    """Delegates what AOTInductor and the registered fallback kernels can run on a CPU.

    Works without arguments. An op that cannot be delegated stays outside, with a warning that names
    it, its place in the model and what would provide it.

    Args:
        target: the CPU to make code for: ``"x86_64-v3"`` (the default on x86-64: AVX2 and FMA),
            ``"x86_64-v4"`` (AVX-512), ``"x86_64-v1"``, ``"aarch64-v8"`` (the default on Arm: NEON),
            ``"aarch64-v8.6"`` (bfloat16), ``"aarch64-sve256"`` (SVE with vectors of 256 bits),
            ``"native"`` for the best that this machine has, or a name that a plugin brought. It
            need not be this machine's.
        targets: several such names; the program then holds code for each, and the runtime takes the
            best that fits.
        external_data: ``True`` puts the weights into a ``.ptd`` file with the tag
            ``aoti_cpu_blob``; a string is another tag.
        debug_info: keep symbols and line tables in the code.
        keep_sources: folder for the generated C++, to look at.
        share_state: ``False`` gives a method mutable buffers of its own; otherwise methods share
            those that have one name.
        exclude: ops that stay outside although they could be lowered, such as
            ``["aten.cumsum.default"]``, for ExecuTorch or for the partitioner that comes next.
        allow_missing_kernels: go on where an op is in no delegate in the end and ExecuTorch has no
            kernel for it: whoever loads the program has to register one.
        compile_specs: the same options as compile specs, instead of the arguments above.

    Raises:
        LoweringError: options that do not fit together or name no target.

    Example:
        >>> from aoti_plugins import CpuPartitioner
        >>> CpuPartitioner(target="x86_64-v3").delegation_spec.backend_id
        'AotiCpuBackend'
    """

    def __init__(
        self,
        *,
        target: str | None = None,
        targets: Sequence[str] = (),
        external_data: bool | str = False,
        debug_info: bool = False,
        keep_sources: str = "",
        share_state: bool = True,
        exclude: Sequence[str] = (),
        allow_missing_kernels: bool = False,
        compile_specs: Sequence[CompileSpec] | None = None,
    ) -> None:
        super().__init__(
            CPU,
            compile_specs,
            target=target,
            targets=targets,
            external_data=external_data,
            debug_info=debug_info,
            keep_sources=keep_sources,
            share_state=share_state,
            exclude=exclude,
            allow_missing_kernels=allow_missing_kernels,
        )
