"""Targets: names, defaults, what this machine is."""

from __future__ import annotations

import pytest

from aoti_plugins import CpuPartitioner
from aoti_plugins.cpu import target
from aoti_plugins.errors import LoweringError


def test_default_follows_the_machine() -> None:
    assert target.default_target("x86_64") == "x86_64-v3"
    assert target.default_target("aarch64") == "aarch64-v8"
    with pytest.raises(
        LoweringError, match="no CPU target for a riscv64 machine; there are: x86_64-v1"
    ):
        target.default_target("riscv64")


def test_native_is_runnable_here() -> None:
    named = {t.name: t for t in target.TARGETS}
    assert named[target.native_target()].machine == target.host_machine()


def test_unknown_target_lists_the_known() -> None:
    with pytest.raises(
        LoweringError,
        match=r"unknown target 'h100' for device 'cpu'; there are: aarch64-sve256, aarch64-v8, ",
    ):
        CpuPartitioner(target="h100")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "native", "targets": ["native"]}, "either target or targets"),
        ({"targets": "native"}, "for one use target='native'"),
        ({"target": "native", "compile_specs": []}, "either as arguments or as compile_specs"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        CpuPartitioner(**options)  # type: ignore[arg-type]


def test_options_become_compile_specs() -> None:
    spec = CpuPartitioner(target="x86_64-v3", external_data=True).delegation_spec
    assert spec.backend_id == "AotiCpuBackend"
    assert {s.key: bytes(s.value) for s in spec.compile_specs} == {
        "aoti_targets": b"x86_64-v3",
        "aoti_external_data": b"aoti_cpu_blob",
    }
    assert CpuPartitioner(compile_specs=spec.compile_specs).delegation_spec == spec
