"""Write include/aoti_plugins/shim_link_names.h from the headers of an installed torch.

Run it when a new torch declares new shims: ``python native/tools/make_shim_link_names.py``. Names
that are already in the header stay, so that it covers every torch version it was ever run with.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

INCLUDE = Path(__file__).parents[1] / "include" / "aoti_plugins"
HEADER = INCLUDE / "shim_link_names.h"
OPERATORS = INCLUDE / "operators.inc"
TOP = """/// Gives every C shim of PyTorch a linker name of its own: `aotip_` and the name.
///
/// Blobs are compiled with this header force-included (`-include`). Their shims can then never bind
/// to libtorch, in whatever order and visibility it is loaded, and libtorch's own models never bind
/// to us. The list holds all shims that torch declares, also those that this runtime does not have,
/// because a kernel library may bring them. A file may include it again: clang forgets the names
/// that a precompiled header gives to what is declared behind it. Written by
/// native/tools/make_shim_link_names.py.

"""


def own_shims() -> set[str]:
    """Return the names of the shims that PyTorch does not have: ours, and ExecuTorch's own."""
    device = r"AOTIP_(CPU|CUDA|MPS)_OPERATOR"
    own = r"(?:aoti_plugins|executorch_cuda)::"
    found = re.findall(rf'^{device}\((\w+), "{own}', OPERATORS.read_text(), re.MULTILINE)
    return {f"aoti_torch_{device.lower()}_{name}" for device, name in found}


def torch_shims() -> set[str]:
    """Return the names of all shims that the installed torch declares, for the devices we know."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("torch is not installed here; install it and run this again")
    folder = Path(spec.origin).parent / "include" / "torch" / "csrc" / "inductor" / "aoti_torch"
    names: set[str] = set()
    for header in [*folder.glob("c/*.h"), *folder.glob("generated/*.h")]:
        text = re.sub(r"//[^\n]*", "", header.read_text())
        names |= set(re.findall(r"\b((?:aoti_torch_|aoti_record_)\w+)\s*\(", text))
    return {name for name in names if "_xpu_" not in name and "sycl" not in name}


def main() -> None:
    """Merge torch's names into the header."""
    old = (
        set(re.findall(r"redefine_extname (\w+)", HEADER.read_text())) if HEADER.exists() else set()
    )
    names = sorted(old | own_shims() | (torch_shims() - {"aoti_torch_dtype", "aoti_torch_dtype_"}))
    lines = [f"#pragma redefine_extname {name} aotip_{name}\n" for name in names]
    HEADER.write_text(TOP + "".join(lines))
    print(f"{HEADER.name}: {len(names)} names, {len(set(names) - old)} new")


if __name__ == "__main__":
    main()
