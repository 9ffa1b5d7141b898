"""Decides which nodes of a program the CUDA delegate takes."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, final

from aoti_plugins.cuda.device import CUDA
from aoti_plugins.lowering.partitioner import DevicePartitioner

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

_Path = str | PathLike[str]


@final
class CudaPartitioner(DevicePartitioner):
    """Delegates what AOTInductor and the registered fallback kernels can run on an NVIDIA GPU.

    Works without arguments, also on a machine without a GPU. An op that cannot be delegated stays
    outside, with a warning that names it, its place in the model and what would provide it.

    Args:
        target: the GPU to make code for: ``"h100"``, ``"a100"``, ``"l4"``, … (the table of
            ``aoti_plugins.cuda.target``), a name that a plugin brought, ``"native"`` for the GPU of
            this machine, ``"portable"`` for code that runs on every GPU from compute capability 8.0
            on. The default is the GPU of this machine, or ``"portable"`` where there is none.
        targets: several such names; the program then holds code for each, and the runtime takes the
            best that fits.
        external_data: ``True`` puts the weights into a ``.ptd`` file with the tag
            ``aoti_cuda_blob``; a string is another tag.
        debug_info: keep symbols and line tables in the code.
        keep_sources: folder for the generated C++ and Triton code, to look at.
        max_autotune: also make Triton kernels for matrix products and convolutions, and take them
            where they are faster than the libraries; lowering takes longer.
        tuning: file, or files, with tuning records (``aoti-plugins tune``): where the GPU of the
            target is not in this machine, kernels get the configurations that were measured on one.
            What a record does not know is estimated, and a warning says what that was.
        save_tuning: file that gets what is measured while lowering for the GPU of this machine.
        cuda_graphs: run each call as one CUDA graph, captured for the shapes of its inputs and for
            the caller's buffers: less time between kernels, more memory. The runtime's option of
            this name overrules it.
        target_device: the GPU to run on, ``"cuda:0"``, ``"cuda:1"``, …; with it, ExecuTorch plans
            memory for inputs, outputs and what delegates pass to each other on that GPU, and copies
            to and from the host as its ``PropagateDeviceConfig`` says. Without it programs run on
            the first GPU, and take and give memory of the host or of the GPU.
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
        >>> from aoti_plugins import CudaPartitioner
        >>> CudaPartitioner(target="h100").delegation_spec.backend_id
        'AotiCudaBackend'
    """

    def __init__(
        self,
        *,
        target: str | None = None,
        targets: Sequence[str] = (),
        external_data: bool | str = False,
        debug_info: bool = False,
        keep_sources: str = "",
        max_autotune: bool = False,
        tuning: _Path | Sequence[_Path] = (),
        save_tuning: _Path = "",
        cuda_graphs: bool = False,
        target_device: str = "",
        share_state: bool = True,
        exclude: Sequence[str] = (),
        allow_missing_kernels: bool = False,
        compile_specs: Sequence[CompileSpec] | None = None,
    ) -> None:
        super().__init__(
            CUDA,
            compile_specs,
            target=target,
            targets=targets,
            external_data=external_data,
            debug_info=debug_info,
            keep_sources=keep_sources,
            max_autotune=max_autotune,
            tuning=_paths(tuning),
            save_tuning=fspath(save_tuning),
            cuda_graphs=cuda_graphs,
            target_device=target_device,
            share_state=share_state,
            exclude=exclude,
            allow_missing_kernels=allow_missing_kernels,
        )


def _paths(given: _Path | Sequence[_Path]) -> tuple[str, ...]:
    several = (given,) if isinstance(given, str | PathLike) else given
    return tuple(fspath(path) for path in several)
