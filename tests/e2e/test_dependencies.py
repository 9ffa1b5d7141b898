"""Neither the delegate nor a blob needs libtorch, and blobs bind to our runtime alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aoti_plugins import native_files
from aoti_plugins.lowering.artifacts.elf import read_shared_object

FOREIGN = (
    "libtorch",
    "libc10",
    "libpython",
    "libmkl",
    "libdnnl",
    "libgomp",
    "libexecutorch_threadpool",
)
LIBRARIES = [
    "libexecutorch_backend_aoti.so",
    "libexecutorch_backend_aoti_cuda.so",
    "libaoti_plugins_runner.so",
]


@pytest.mark.parametrize("name", LIBRARIES)
def test_runtime_libraries(name: str) -> None:
    info = read_shared_object(native_files.library(name).read_bytes())
    assert "libexecutorch.so" in info.needed
    assert not [n for n in info.needed if n.startswith(FOREIGN)]
    assert not [s for s in info.undefined if s.startswith(("aoti_torch_", "Py"))]
    # The CUDA delegate is linked against the CPU's, whose C++ names it shares.
    own = re.compile(r"aotip_|_Z[A-Z]*12aoti_plugins")
    assert [s for s in info.exported if not own.match(s)] == []


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer", "transformer_bf16", "lstm"])
def test_blobs(name: str, lowered_programs: Callable[[str], Path], blobs_of: Callable) -> None:
    blobs = blobs_of(lowered_programs(name))
    assert blobs
    for data in blobs:
        info = read_shared_object(data)
        assert not [n for n in info.needed if n.startswith(FOREIGN)]
        assert "libexecutorch_backend_aoti.so" in info.needed
        assert not [s for s in info.undefined if s.startswith("aoti_")]
        assert all(s.startswith("AOTInductor") for s in info.exported)
        assert len(data) < 500_000  # line tables alone would be a megabyte


def test_every_needed_shim_is_exported(
    lowered_programs: Callable[[str], Path], blobs_of: Callable
) -> None:
    library = native_files.library("libexecutorch_backend_aoti.so").read_bytes()
    exported = set(read_shared_object(library).exported)
    for name in ("mlp", "cnn", "transformer", "lstm"):
        for data in blobs_of(lowered_programs(name)):
            needed = {s for s in read_shared_object(data).undefined if s.startswith("aotip_")}
            assert needed
            assert needed <= exported
