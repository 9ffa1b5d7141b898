"""The partitioner for Apple GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from aoti_plugins.lowering.partitioner import DevicePartitioner
from aoti_plugins.mps.device import MPS
from aoti_plugins.mps.target import minimum_macos as checked_macos

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec


@final
class MpsPartitioner(DevicePartitioner):
    """Delegates what AOTInductor and the registered fallback kernels can run on an Apple GPU.

    Works without arguments, on a Mac and on Linux. An op that cannot be delegated stays outside,
    with a warning that names it, its place in the model and what would provide it.

    Args:
        target: the Mac to make code for: ``"macos-arm64"``, the default, ``"macos-x86_64"``, or a
            name that a plugin brought.
        targets: several such names; the program then holds code for each, and the runtime takes
            the one that fits.
        minimum_macos: the oldest macOS that the program is to run on; ``"14.0"`` by default, which
            is the oldest that can be.
        gpu_cores: of the GPU that large reductions are split for; 8 by default. The program runs
            on others as well.
        codesign_identity: whose signature the code gets, on a Mac. The default is a signature ad
            hoc, which macOS accepts.
        external_data: ``True`` puts the weights into a ``.ptd`` file with the tag
            ``aoti_mps_blob``; a string is another tag.
        debug_info: keep symbols and line tables in the code.
        keep_sources: folder for the generated C++ and Metal code, to look at.
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
        >>> from aoti_plugins import MpsPartitioner
        >>> MpsPartitioner(minimum_macos="15.0").delegation_spec.backend_id
        'AotiMpsBackend'
    """

    def __init__(
        self,
        *,
        target: str | None = None,
        targets: Sequence[str] = (),
        minimum_macos: str = "",
        gpu_cores: int = 0,
        codesign_identity: str = "",
        external_data: bool | str = False,
        debug_info: bool = False,
        keep_sources: str = "",
        share_state: bool = True,
        exclude: Sequence[str] = (),
        allow_missing_kernels: bool = False,
        compile_specs: Sequence[CompileSpec] | None = None,
    ) -> None:
        super().__init__(
            MPS,
            compile_specs,
            target=target,
            targets=targets,
            external_data=external_data,
            debug_info=debug_info,
            keep_sources=keep_sources,
            minimum_macos=minimum_macos,
            gpu_cores=gpu_cores,
            codesign_identity=codesign_identity,
            share_state=share_state,
            exclude=exclude,
            allow_missing_kernels=allow_missing_kernels,
        )
        checked_macos(minimum_macos)
