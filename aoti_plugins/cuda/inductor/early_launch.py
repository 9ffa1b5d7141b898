"""Let a kernel be launched before the one in front of it has ended.

From compute capability 9.0 on a stream may launch a kernel early (programmatic dependent launch):
it then has to wait, by an instruction, until the results of the kernel in front are there. All
kernels of a program get this instruction as their first, after one that lets the next kernel be
launched in turn; so launches cost no time between kernels, and a chain of them is as safe as
without. Inductor's own switch for it (``triton.enable_pdl``) waits only where it sees that a kernel
reads what the last one wrote, which a third kernel cannot rely on, and leaves out templates.

Triton has made the binary when we get the kernel: its assembly is assembled once more, by the same
assembler with the same options. Which launch it gets is decided for a whole blob, by a macro
(``native/include/aoti_plugins/cuda_blob_prelude.h``).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import torch

from aoti_plugins.cuda.target import CudaTarget
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.inductor.capture import GpuKernel

_FIRST_CAPABILITY = (9, 0)
_OWN_ASSEMBLER = (10, 0)  # from here on Triton has another one
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
    """What Triton's assembler makes of PTX, with the options that Triton gives it.

    Raises:
        LoweringError: it failed; with what it said.
    """
    fusion = () if kernel.fuses_products else ("--fmad=false",)
    with tempfile.TemporaryDirectory(prefix="aoti_plugins-") as folder:
        source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(assembly, encoding="utf-8")
        done = subprocess.run(
            [
                _assembler(gpu),
                "-lineinfo",
                "-suppress-debug-info",
                *fusion,
                f"--gpu-name={gpu.arch}",
                source,
                "-o",
                binary,
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise LoweringError(
                f"the assembler failed for the kernel {kernel.name} "
                f"(exit status {done.returncode}): {done.stderr.strip()}"
            )
        return binary.read_bytes()


def _assembler(gpu: CudaTarget) -> str:
    """The one that Triton was given: a setting of the user's, PyTorch's own, or Triton's own."""
    from triton import knobs

    if gpu.capability >= _OWN_ASSEMBLER and hasattr(knobs.nvidia, "ptxas_blackwell"):
        return str(knobs.nvidia.ptxas_blackwell.path)
    own = Path(torch.__file__).parent / "bin" / "ptxas"
    if "TRITON_PTXAS_PATH" not in os.environ and os.access(own, os.X_OK):
        return str(own)
    return str(knobs.nvidia.ptxas.path)
