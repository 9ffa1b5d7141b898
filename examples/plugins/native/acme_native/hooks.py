"""Offers the kernels of this package to everybody's lowering."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import acme_native
from aoti_plugins import CShim, FallbackKernel, LinkedObjects, SharedLibrary, hookimpl

AOTI_PLUGINS_API = 1

_FORM = "ACME_NATIVE_KERNELS"


@hookimpl
def aoti_fallback_kernels(device):
    """The op's kernel for a device, where this package was built with one."""
    name = {"cpu": "acme_native", "cuda": "acme_native_cuda"}.get(device)
    if name is None or not (_kernels() / f"{name}.o").exists():
        return []
    shim = f"aoti_torch_{device}_scaled_cube"
    declaration = (
        f"AOTITorchError {shim}(AtenTensorHandle self, double scale, AtenTensorHandle* ret0)"
    )
    return [
        FallbackKernel(
            "acme_native::scaled_cube",
            (CShim(shim, declaration),),
            dtypes=("float32",),
            provider=_provider(name),
        )
    ]


def _provider(name):
    """Link the kernel into each program; with ACME_NATIVE_KERNELS=library programs look for it."""
    form = os.environ.get(_FORM, "linked")
    if form == "linked":
        return LinkedObjects((str(_kernels() / f"{name}.o"),))
    if form == "library":
        soname = f"lib{name}.so.1"
        return SharedLibrary(str(_kernels() / soname), soname, version("acme-native"))
    raise ValueError(f"{_FORM} is 'linked' or 'library', found {form!r}")


def _kernels():
    """The folder of what was built; an editable install has it apart from the sources."""
    folders = [Path(root) / "kernels" for root in acme_native.__path__]
    for folder in folders:
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"no kernels in {', '.join(map(str, folders))}: install the package; its sources on "
        "sys.path hide the installed one"
    )
