"""GPUs of the table, and the description of a GPU that is there."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoti_plugins.cuda import target as targets
from aoti_plugins.cuda.target import GPUS, TARGETS, as_target, cuda_target_of, target_by_name
from aoti_plugins.errors import LoweringError, UnsupportedError
from aoti_plugins.types import Target


def _properties(name: str, **changes: Any) -> SimpleNamespace:
    """What PyTorch says of an H100; names of ``torch.cuda.get_device_properties``."""
    values = {
        "name": name,
        "major": 9,
        "minor": 0,
        "multi_processor_count": 132,
        "regs_per_multiprocessor": 65536,
        "max_threads_per_multi_processor": 2048,
        "shared_memory_per_multiprocessor": 233472,
        "shared_memory_per_block_optin": 232448,
        "L2_cache_size": 52428800,
        "total_memory": 85031714816,
    }
    return SimpleNamespace(**{**values, **changes})


def test_names_are_unique_and_complete() -> None:
    names = [gpu.name for gpu in GPUS]
    assert len(set(names)) == len(names)
    expected = {"a100", "l4", "l40s", "rtx3090", "rtx4090", "rtx5090", "h100", "h200", "b200"}
    assert expected | {"orin", "thor", "gh200", "portable"} == set(names)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_figures_are_consistent(gpu: targets.CudaTarget) -> None:
    cores_per_multiprocessor = 64 if gpu.capability == (8, 0) else 128
    peak = 2 * cores_per_multiprocessor * gpu.multiprocessors * gpu.sm_clock_hz
    assert gpu.f32_flops == pytest.approx(peak, rel=0.07)
    assert gpu.tf32_flops == pytest.approx(gpu.f16_flops / 2, rel=0.03)
    assert gpu.shared_memory_per_block == gpu.shared_memory_per_multiprocessor - 1024
    assert gpu.max_threads_per_multiprocessor % 32 == 0
    assert gpu.int8_ops >= gpu.f16_flops > gpu.f32_flops > gpu.f64_flops
    assert (gpu.fp8_flops > 0) == (gpu.capability >= (8, 9))


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("a100", ("sm_80",)),
        ("h100", ("sm_90a",)),
        ("thor", ("sm_110a",)),
        ("rtx5090", ("sm_120a",)),
        ("portable", ("sm_80", "compute_80")),
    ],
)
def test_features(name: str, features: tuple[str, ...]) -> None:
    (target,) = (target for target in TARGETS if target.name == name)
    assert target.features == features
    assert target.device == "cuda"
    assert cuda_target_of(target) == target_by_name(name)


def test_portable_fits_every_gpu() -> None:
    portable = target_by_name("portable")
    for gpu in GPUS:
        assert portable.shared_memory_per_block <= gpu.shared_memory_per_block
        assert portable.max_threads_per_multiprocessor <= gpu.max_threads_per_multiprocessor
        assert portable.capability <= gpu.capability


def test_unknown_name() -> None:
    with pytest.raises(UnsupportedError, match=r"no GPU 'h999'.*a100"):
        target_by_name("h999")


def test_target_of_another_kind() -> None:
    with pytest.raises(LoweringError, match=r"'odd'.*NoneType, expected a CudaTarget"):
        cuda_target_of(Target(name="odd", device="cuda", machine="x86_64"))


def test_wrong_figures_are_refused() -> None:
    with pytest.raises(ValueError, match=r"multiprocessors of 'h100' must be positive"):
        dataclasses.replace(target_by_name("h100"), multiprocessors=0)
    with pytest.raises(ValueError, match="newer GPUs refuse that of sm_90a"):
        dataclasses.replace(target_by_name("h100"), ptx=True)
    assert dataclasses.replace(target_by_name("h100"), ptx=True, arch_suffix="").features == (
        "sm_90",
        "compute_90",
    )


def test_matrix_rates() -> None:
    h100, a100 = target_by_name("h100"), target_by_name("a100")
    assert h100.matrix_flops("bfloat16") == h100.f16_flops
    assert h100.matrix_flops("float8_e4m3fn") == h100.fp8_flops
    assert a100.matrix_flops("float8_e4m3fn") == a100.f16_flops
    assert h100.matrix_flops("tf32") == h100.tf32_flops
    assert h100.matrix_flops("float32") == h100.f32_flops
    assert h100.matrix_flops("float64") == h100.f64_flops


def test_hook_packages_can_vary_a_row() -> None:
    slower = dataclasses.replace(target_by_name("h100"), name="acme", sm_clock_hz=1.2e9)
    assert cuda_target_of(as_target(slower)).sm_clock_hz == 1.2e9


def test_native_gpu_of_the_table() -> None:
    gpu = targets._from_properties(_properties("NVIDIA H100 80GB HBM3"))
    assert (gpu.name, gpu.arch, gpu.multiprocessors) == ("native", "sm_90a", 132)
    assert gpu.memory_bandwidth == target_by_name("h100").memory_bandwidth
    assert gpu.f16_flops == target_by_name("h100").f16_flops


def test_native_gpu_is_asked_where_it_answers() -> None:
    found = _properties(
        "NVIDIA H100 PCIe",
        multi_processor_count=66,
        clock_rate=990_000,
        memory_clock_rate=1_000_000,
        memory_bus_width=5120,
    )
    gpu = targets._from_properties(found)
    assert gpu.memory_bandwidth == 2 * 1e9 * 5120 / 8
    assert gpu.sm_clock_hz == 990e6
    assert gpu.f32_flops == pytest.approx(target_by_name("h100").f32_flops / 4)


@pytest.mark.parametrize(
    ("name", "capability", "row"),
    [
        ("NVIDIA L40S", (8, 9), "l40s"),
        ("NVIDIA L4", (8, 9), "l4"),
        ("NVIDIA GeForce RTX 4090", (8, 9), "rtx4090"),
        ("NVIDIA A10", (8, 6), "rtx3090"),
        ("NVIDIA B300", (10, 3), "b200"),
        ("Something new", (13, 0), "rtx5090"),
    ],
)
def test_nearest_row(name: str, capability: tuple[int, int], row: str) -> None:
    assert targets._nearest(name, capability).name == row


def test_too_old_gpu() -> None:
    with pytest.raises(UnsupportedError, match=r"'Tesla V100' has compute capability 7\.0"):
        targets._nearest("Tesla V100", (7, 0))


def test_no_gpu_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: pytest.fail("CUDA was initialised"))
    assert targets.device_target() is None


@given(st.sampled_from(GPUS))
def test_there_and_back(gpu: targets.CudaTarget) -> None:
    assert cuda_target_of(as_target(gpu)) is gpu
