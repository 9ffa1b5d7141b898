"""CPUs one can lower for.

Levels, not models: a program made for ``x86_64-v3`` runs on every x86-64 CPU with AVX2 and FMA.
Figures: the x86-64 psABI, section 3.1.1 (micro-architecture levels); the Arm Architecture Reference
Manual, chapter A2 (which version brings what). A level lists only the features that the generated
code uses; the runtime refuses a program whose features the machine lacks. Names of features are
Linux's, as ``/proc/cpuinfo`` has them; ``sve256`` is SVE with vectors of 256 bits.
"""

from __future__ import annotations

import ctypes
import platform

from aoti_plugins.errors import LoweringError
from aoti_plugins.types import Target

NATIVE = "native"

_V3 = ("avx2", "fma", "f16c")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512dq", "avx512vl")


def _x86(name: str, isa: str, features: tuple[str, ...], defines: tuple[str, ...]) -> Target:
    flags = (*(f"-m{feature}" for feature in features), *(f"-D{define}" for define in defines))
    return Target(
        name=name,
        device="cpu",
        machine="x86_64",
        features=features,
        properties={"vector_isa": isa, "cxx_flags": flags},
    )


def _arm(
    name: str, architecture: str, features: tuple[str, ...], isa: str = "neon", *more_flags: str
) -> Target:
    defines = (f"-DCPU_CAPABILITY_{isa.upper()}", "-DAT_BUILD_ARM_VEC256_WITH_SLEEF")
    return Target(
        name=name,
        device="cpu",
        machine="aarch64",
        features=features,
        properties={
            "vector_isa": isa,
            "cxx_flags": (f"-march={architecture}", *more_flags, *defines),
        },
    )


TARGETS = (
    _x86("x86_64-v1", "scalar", (), ()),
    _x86("x86_64-v3", "avx2", _V3, ("CPU_CAPABILITY=AVX2", "CPU_CAPABILITY_AVX2")),
    _x86("x86_64-v4", "avx512", _V4, ("CPU_CAPABILITY=AVX512", "CPU_CAPABILITY_AVX512")),
    _arm("aarch64-v8", "armv8-a", ()),
    # Of what Armv8.1 to 8.6 bring, only bfloat16 is used: Neoverse V1, N2 and V2, Cortex-X2.
    _arm("aarch64-v8.6", "armv8-a+bf16", ("bf16",)),
    # Neoverse V1. Others with SVE have vectors of 128 bits, as many as NEON's.
    _arm(
        "aarch64-sve256",
        "armv8-a+sve+bf16",
        ("bf16", "sve256"),
        "sve256",
        "-msve-vector-bits=256",
        "-DCPU_CAPABILITY_SVE",
        "-DCPU_CAPABILITY=SVE256",
    ),
)

_DEFAULT = {"x86_64": "x86_64-v3", "aarch64": "aarch64-v8"}


def default_target(machine: str | None = None) -> str:
    """The level that nearly every CPU of a machine type has: AVX2 on x86-64, NEON on aarch64.

    Raises:
        LoweringError: no target is made for this machine type.
    """
    machine = machine or host_machine()
    if machine not in _DEFAULT:
        raise LoweringError(
            f"no CPU target for a {machine} machine; "
            f"there are: {', '.join(t.name for t in TARGETS)}"
        )
    return _DEFAULT[machine]


def native_target() -> str:
    """The highest level that this machine can run."""
    machine, present = host_machine(), _host_features()
    fitting = [t for t in TARGETS if t.machine == machine and set(t.features) <= present]
    if not fitting:
        return default_target(machine)
    return max(fitting, key=lambda t: len(t.features)).name


def host_machine() -> str:
    """``"x86_64"`` or ``"aarch64"``, as ELF headers and targets spell it."""
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def _host_features() -> frozenset[str]:
    import torch

    if host_machine() == "aarch64":
        return _arm_features()
    if host_machine() != "x86_64":
        return frozenset()
    capability = torch.backends.cpu.get_cpu_capability()
    return frozenset({"AVX2": _V3, "AVX512": _V4}.get(capability, ()))


def _arm_features() -> frozenset[str]:
    """What the kernel says of this Arm machine; must match native/src/delegate/target.cpp."""
    if platform.system() != "Linux":
        return frozenset()
    libc = ctypes.CDLL(None)
    libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    hwcap2, bf16 = 26, 1 << 14  # AT_HWCAP2 of elf.h, HWCAP2_BF16 of asm/hwcap.h
    get_vector_length, nbytes = 51, 0xFFFF  # PR_SVE_GET_VL, PR_SVE_VL_LEN_MASK of linux/prctl.h
    length = libc.prctl(get_vector_length)
    found = {
        "bf16": bool(libc.getauxval(hwcap2) & bf16),
        "sve256": length >= 0 and length & nbytes == 32,
    }
    return frozenset(name for name, present in found.items() if present)
