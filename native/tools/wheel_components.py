"""Code of others that is in our wheels, as their builds find it."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import zipfile
from pathlib import Path

from bill_of_materials import Component
from build_linux import find_zig


def executorch(wheel: Path, folder: Path) -> Component:
    """ExecuTorch, whose headers all our libraries include; its licence goes to the folder."""
    version = wheel.name.split("-")[1]
    text = folder / "executorch.txt"
    with zipfile.ZipFile(wheel) as archive:
        text.write_bytes(archive.read(f"executorch-{version}.dist-info/licenses/LICENSE"))
    return Component(
        name="executorch",
        version=version,
        licence="BSD-3-Clause",
        purl=f"pkg:pypi/executorch@{version}",
        how="inline functions of its headers; its library is linked at run time",
        text=text,
    )


def zig_runtime() -> Component:
    """Functions of zig that its compiler calls."""
    version = importlib.metadata.version("ziglang")
    return Component(
        name="zig-compiler-rt",
        version=version,
        licence="MIT",
        purl=f"pkg:pypi/ziglang@{version}",
        how="functions that the compiler calls, linked in",
        text=find_zig().with_name("LICENSE"),
    )


def libcxx() -> list[Component]:
    """LLVM's C++ library, which is inside our libraries for macOS."""
    version = importlib.metadata.version("ziglang")
    library = find_zig().parent / "lib"
    return [
        Component(
            name=name,
            version=f"zig-{version}",
            licence="Apache-2.0 WITH LLVM-exception",
            purl=f"pkg:pypi/ziglang@{version}",
            how="part of LLVM's C++ library, linked in",
            text=library / name / "LICENSE.TXT",
        )
        for name in ("libcxx", "libcxxabi")
    ]


def gcc(root: Path) -> Component:
    """GCC's libraries, of which templates and support functions are in our libraries for Linux."""
    (version,) = (path.name for path in (root / "usr" / "include" / "c++").iterdir())
    return Component(
        name="gcc-runtime",
        version=version,
        licence="GPL-3.0-or-later WITH GCC-exception-3.1",
        purl=f"pkg:deb/debian/libstdc%2B%2B-{version}-dev",
        how="templates of libstdc++ and functions of libgcc.a, under the exception",
    )


def eigen(root: Path) -> Component:
    """Eigen, with which products on the CPU are compiled."""
    version = importlib.metadata.version("cmeel-eigen")
    return Component(
        name="eigen",
        version=version,
        licence="MPL-2.0",
        purl=f"pkg:pypi/cmeel-eigen@{version}",
        how="templates of its headers, unchanged; cmeel-eigen on PyPI has their sources",
        text=root / "usr" / "share" / "common-licenses" / "MPL-2.0",
    )


def cuda(nvcc: str) -> Component:
    """CUDA's toolkit, with which kernels for NVIDIA GPUs are compiled."""
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"V(\d+\.\d+\.\d+)", done.stdout)
    if match is None:
        raise SystemExit(f"{nvcc} --version names no version:\n{done.stdout}")
    return Component(
        name="cuda-toolkit",
        version=match[1],
        licence="LicenseRef-NVIDIA-CUDA-EULA",
        purl=f"pkg:generic/cuda-toolkit@{match[1]}",
        how="inline functions of its headers and libdevice, in kernels that nvcc compiled",
    )
