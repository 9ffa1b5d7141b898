"""Let a kernel be launched before the one in front of it has ended.

From compute capability 9.0 on a stream may launch a kernel early (programmatic dependent launch):
it then has to wait, by an instruction, until the results of the kernel in front are there. All
kernels of a program get this instruction as their first, after one that lets the next kernel be
launched in turn; so launches cost no time between kernels, and a chain of them is as safe as
without. Inductor's own switch for it (``triton.enable_pdl``) waits only where it sees that a kernel
reads what the last one wrote, which a third kernel cannot rely on, and leaves out templates.

Triton has made the binary when we get the kernel: Triton assembles the assembly once more, with the
instructions in it. Which launch it gets is decided for a whole blob, by a macro
(``native/include/aoti_plugins/cuda_blob_prelude.h``).
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

from aoti_plugins.cuda.inductor.assembler_files import assembler_files, pytorchs_assembler
from aoti_plugins.cuda.inductor.line_info import no_line_info
from aoti_plugins.cuda.target import CudaTarget
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.inductor.capture import GpuKernel

_FIRST_CAPABILITY = (9, 0)
_WARP = 32
_ENTRY = re.compile(r"\.entry\b[^{]*\{\n")
_INSTRUCTIONS = "\tgriddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;\n"


def begins_early(gpu: CudaTarget) -> bool:
    """Whether kernels for a GPU are launched early; code that newer GPUs share is not."""
    return gpu.capability >= _FIRST_CAPABILITY and not gpu.ptx


def waiting_binary(gpu: CudaTarget, kernel: GpuKernel) -> bytes:
    """The binary of a kernel that waits, before anything else, for the kernel in front of it.

    Raises:
        LoweringError: the assembly has no kernel, or the assembler failed.
    """
    return assembled(gpu, kernel, assembly_that_waits(kernel))


def assembly_that_waits(kernel: GpuKernel) -> str:
    """The assembly of a kernel with the instructions in front.

    Raises:
        LoweringError: it has no kernel, or several.
    """
    assembly, entries = _ENTRY.subn(lambda found: found[0] + _INSTRUCTIONS, kernel.assembly)
    if entries != 1:
        raise LoweringError(
            f"the assembly of the kernel {kernel.name} has {entries} entry points, expected 1"
        )
    return assembly


def assembled(gpu: CudaTarget, kernel: GpuKernel, assembly: str) -> bytes:
    """What Triton makes of PTX: with the assembler and the options of its own.

    Raises:
        LoweringError: the assembler failed; with what it said.
    """
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime.errors import PTXASError

    capability = gpu.capability_number
    backend = CUDABackend(GPUTarget("cuda", capability, _WARP))
    options = backend.parse_options({"enable_fp_fusion": kernel.fuses_products})
    said = io.StringIO()  # on a failure Triton prints the whole assembly
    with no_line_info(), assembler_files(), pytorchs_assembler(), redirect_stdout(said):
        try:
            return bytes(backend.make_cubin(assembly, {}, options, capability))
        except PTXASError as error:
            raise LoweringError(
                f"the assembler failed for the kernel {kernel.name}: {error}"
            ) from error
