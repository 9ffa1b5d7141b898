"""Options travel as compile specs and come back."""

from __future__ import annotations

import pytest

from aoti_plugins import compile_specs as specs
from aoti_plugins.errors import LoweringError

pytest.importorskip("executorch", reason="compile specs are ExecuTorch's")
from executorch.exir.backend.compile_spec_schema import CompileSpec

FULL = specs.LoweringOptions(
    targets=("x86_64-v3", "x86_64-v4"),
    external_data="tag",
    debug_info=True,
    keep_sources="/tmp/x",
    max_autotune=True,
    tuning=("a.json", "b.json"),
    save_tuning="c.json",
    cuda_graphs=True,
    exclude=("aten.cumsum.default", "aten.sort.default"),
    allow_missing_kernels=True,
    target_device="cuda:1",
    minimum_macos="15.1",
    gpu_cores=40,
    codesign_identity="Developer ID Application: Ünï",
)


@pytest.mark.parametrize("options", [specs.LoweringOptions(), FULL])
def test_round_trip(options: specs.LoweringOptions) -> None:
    assert specs.decode(specs.encode(options)) == options


def test_defaults_need_no_compile_specs() -> None:
    assert specs.encode(specs.LoweringOptions()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            [CompileSpec("aoti_other", b"1")],
            "unknown compile spec 'aoti_other'; known: aoti_allow_missing_kernels, aoti_codesign",
        ),
        (
            [CompileSpec("aoti_debug_info", b"yes")],
            "compile spec 'aoti_debug_info' is 0 or 1; found b'yes'",
        ),
        ([CompileSpec("aoti_targets", b"\xff")], "compile spec 'aoti_targets' is not UTF-8"),
        ([CompileSpec("aoti_targets", b"a")] * 2, "compile spec 'aoti_targets' is given twice"),
        ([CompileSpec("aoti_targets", b"a,,b")], "a target's name is not empty and has no comma"),
        ([CompileSpec("aoti_exclude", b"a,,b")], "an excluded op's name is not empty"),
        ([CompileSpec("target_device", b"cuda:-1")], "such as 'cuda:1'; found 'cuda:-1'"),
        ([CompileSpec("aoti_targets", b"a,a")], "a target is named twice: a, a"),
        ([CompileSpec("aoti_minimum_macos", b"new")], "a version such as '14.0'; found 'new'"),
        ([CompileSpec("aoti_gpu_cores", b"-1")], "'aoti_gpu_cores' is a number; found '-1'"),
    ],
)
def test_bad_specs(given: list[CompileSpec], message: str) -> None:
    with pytest.raises(LoweringError) as caught:
        specs.decode(given)
    assert message in str(caught.value)
