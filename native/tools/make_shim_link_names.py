"""Write include/aoti_plugins/shim_link_names.h from the headers of an installed torch.

Run it when a new torch declares new shims: ``python native/tools/make_shim_link_names.py``. Names
that are already in the header stay, so that it covers every torch version it was ever run with.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

HEADER = Path(__file__).parents[1] / "include" / "aoti_plugins" / "shim_link_names.h"
TOP = """#pragma once

/// Gives every C shim of PyTorch a linker name of its own: `aotip_` and the name.
///
/// Blobs are compiled with this header force-included (`-include`). Their shims can then never bind
/// to libtorch, in whatever order and visibility it is loaded, and libtorch's own models never bind
/// to us. The list holds all shims that torch declares, also those that this runtime does not have,
/// because a kernel library may bring them. Written by native/tools/make_shim_link_names.py.

"""


OWN_SHIMS = {
    "aoti_torch_cuda_fused_linear",
    "aoti_torch_cuda_attended_range",
    "aoti_torch_cuda_token_attention",
    *(f"aoti_torch_cuda_int{bits}_plain_mm" for bits in (4, 5, 6, 8)),
}
"""Shims of ours, and of ExecuTorch's CUDA programs, that PyTorch does not have."""


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
    names = sorted(old | OWN_SHIMS | (torch_shims() - {"aoti_torch_dtype", "aoti_torch_dtype_"}))
    lines = [f"#pragma redefine_extname {name} aotip_{name}\n" for name in names]
    HEADER.write_text(TOP + "".join(lines))
    print(f"{HEADER.name}: {len(names)} names, {len(set(names) - old)} new")


if __name__ == "__main__":
    main()
