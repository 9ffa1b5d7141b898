"""Programs for Macs: what is in them, and what cannot be lowered."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower
from torch import nn
from torch.nn import functional

from aoti_plugins import LoweringError, MpsPartitioner, native_files
from aoti_plugins.lowering.artifacts.elf import read_shared_object
from aoti_plugins.lowering.artifacts.mach_o import MachOInfo, is_mach_o, read_mach_o
from aoti_plugins.lowering.artifacts.shared_object import LINK_NAME_PREFIX
from aoti_plugins.mps.device import MPS
from aoti_plugins.mps.passes.attention_to_metal import takes_groups

SYSTEM = "/usr/lib/libSystem.B.dylib"
# Of the C++ library that is linked in; every binary for macOS that has one offers them.
ALLOCATION = re.compile(r"__Z(na|nw|da|dl)\w+|__mh_dylib_header|___dso_handle")


def blobs(path: Path) -> list[bytes]:
    from executorch.exir._serialize._program import deserialize_pte_binary

    named = deserialize_pte_binary(path.read_bytes()).named_data
    assert named is not None
    buffers = [bytes(named.buffers[entry.buffer_index]) for entry in named.pte_data.values()]
    return [data for data in buffers if is_mach_o(data)]


@pytest.fixture(scope="module")
def dylib(mps_programs: Callable[..., Path]) -> MachOInfo:
    (blob,) = blobs(mps_programs("transformer"))
    return read_mach_o(blob)


def test_a_signed_library_for_a_mac(dylib: MachOInfo) -> None:
    assert dylib.machine == "arm64-apple-macos"
    assert dylib.minimum_macos == "14.0"
    assert dylib.is_signed
    assert dylib.needed == (SYSTEM,)


def test_exports_are_the_models_interface(dylib: MachOInfo) -> None:
    others = [name for name in dylib.exported if not name.startswith("_AOTInductor")]
    assert [name for name in others if not ALLOCATION.fullmatch(name)] == []


def test_imports_are_the_systems_and_shims_that_the_runtime_has(dylib: MachOInfo) -> None:
    runtime = set()
    for name in MPS.libraries:
        runtime.update(read_shared_object(native_files.library(name).read_bytes()).exported)
    taken = {name for name, library in dylib.undefined if library != SYSTEM}
    # The compiler puts an underscore before the names of the marks of profiles, and of where what
    # fails in the blob is said.
    ours = {name for name in taken if name.startswith(("_aotip_kernel_", "_aotip_record_failure"))}
    taken = (taken - ours) | {name.removeprefix("_") for name in ours}
    assert {name for name in taken if not name.startswith(LINK_NAME_PREFIX)} == set()
    assert f"{LINK_NAME_PREFIX}aoti_torch_mps_run_command_block" in taken
    assert taken - runtime == set()


_TWICE = """
import sys
sys.path.insert(0, {tests!r})
import hashlib
from support import load_example, lower
from aoti_plugins import MpsPartitioner
for name in {names}:
    model, inputs = load_example("models").MODELS[name]()
    program = lower(model, inputs, partitioner=MpsPartitioner())
print(hashlib.sha256(program.buffer).hexdigest())
"""


def test_two_lowerings_are_equal_bytes(
    run_python: Callable[..., str], tmp_path: Path, shared_dir: Path
) -> None:
    """In two processes, with two orders of hashes, one of which has lowered something else."""
    from aoti_plugins.lowering.artifacts.cache_folder import private_folder

    tests = str(Path(__file__).parents[1])
    digests = []
    for seed, names in (("1", ["mlp"]), ("2", ["lstm", "mlp"])):
        cache = tmp_path / seed
        cache.mkdir()
        (cache / "zig").symlink_to(private_folder("zig"))  # the C++ library takes a minute
        script = _TWICE.format(tests=tests, names=names)
        output = run_python(script, PYTHONHASHSEED=seed, AOTI_PLUGINS_CACHE_DIR=str(cache))
        # CUDA builds of PyTorch warn at their end that there is no CUDA.
        digests += re.findall(r"^[0-9a-f]{64}$", output, re.M)
    assert len(digests) == 2
    assert digests[0] == digests[1]


def test_nothing_is_left_behind(
    run_python: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tests = str(Path(__file__).parents[1])
    run_python(_TWICE.format(tests=tests, names=["mlp"]))
    assert list(tmp_path.iterdir()) == []


def test_metal_source_in_a_program_is_small(mps_programs: Callable[..., Path]) -> None:
    (blob,) = blobs(mps_programs("mlp"))
    sources = re.findall(rb"\n#include <metal_stdlib>[^\0]*\0", blob)
    assert sources
    assert all(len(source) < 2000 for source in sources)
    assert b"// " not in b"".join(sources)


def _refusals(model: Any, inputs: tuple[Any, ...], caplog: pytest.LogCaptureFixture) -> str:
    lower(model, inputs, partitioner=MpsPartitioner())
    return caplog.text


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def test_float64_stays_outside(caplog: pytest.LogCaptureFixture) -> None:
    text = _refusals(Twice(), (torch.randn(3, dtype=torch.float64),), caplog)
    assert "stay outside the mps delegate" in text
    assert "Metal has no float64" in text
    assert "to delegate it: cast in the model, to float32 for instance" in text


def test_a_cast_to_float64_stays_outside(capfd: pytest.CaptureFixture[str]) -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2).double().sum()

    lower(Sum(), (torch.randn(3),), partitioner=MpsPartitioner())
    assert "Error in codegen" not in capfd.readouterr().err


class Grouped(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
        return functional.scaled_dot_product_attention(q, k, v, scale=0.5)


class Plain(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize(("model", "key_heads"), [(Grouped(), 2), (Plain(), 4)])
def test_attention_is_one_call(model: nn.Module, key_heads: int, tmp_path: Path) -> None:
    inputs = (torch.randn(1, 4, 5, 8), *(torch.randn(1, key_heads, 7, 8) for _ in "kv"))
    partitioner = MpsPartitioner(keep_sources=str(tmp_path))
    program = lower(model, inputs, partitioner=partitioner)
    calls = [node for node in program.exported_program().graph.nodes if "aten" in str(node.target)]
    assert calls == []
    (wrapper,) = tmp_path.glob("*/wrapper.cpp")
    source = wrapper.read_text()
    assert source.count("_scaled_dot_product_attention_math_for_mps") >= 1
    assert "aoti_torch_mps_bmm_out" not in source
    if key_heads == 4 or takes_groups():  # the op of older PyTorch wants repeated heads
        assert "generated_kernel" not in source  # nothing is left to repeat, scale or normalize


def test_weights_outside_the_program() -> None:
    program = lower(
        nn.Linear(3, 4), (torch.randn(2, 3),), partitioner=MpsPartitioner(external_data=True)
    )
    assert list(program._tensor_data) == ["aoti_mps_blob"]


def test_zig_is_asked_for_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "ziglang" else find(name)
    )
    with pytest.raises(LoweringError, match=r"ziglang is not installed: pip install"):
        lower(Twice(), (torch.randn(3),), partitioner=MpsPartitioner())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minimum_macos": "13.5"}, "programs need macOS 14.0 or later"),
        ({"minimum_macos": "ventura"}, "a version such as '14.0'"),
        ({"gpu_cores": -1}, "gpu_cores is not negative"),
        ({"target": "h100"}, "unknown target 'h100' for device 'mps'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        MpsPartitioner(**options)


def test_a_signature_needs_a_mac() -> None:
    partitioner = MpsPartitioner(codesign_identity="Somebody")
    with pytest.raises(LoweringError, match="codesign_identity needs Apple's codesign"):
        lower(Twice(), (torch.randn(7),), partitioner=partitioner)


def test_the_payload_names_the_oldest_macos(mps_programs: Callable[..., Path]) -> None:
    from aoti_plugins.cli._pte import inspect_program

    program = inspect_program(mps_programs("mlp"))
    (delegate,) = program["methods"][0]["delegates"]
    assert delegate["id"] == "AotiMpsBackend"
    (target,) = delegate["payload"]["targets"]
    assert (target["name"], target["machine"]) == ("macos-arm64", "arm64-apple-macos")
    assert target["features"] == ("macos14.0",)


@pytest.mark.parametrize("data", [b"", b"\xcf\xfa\xed\xfe", b"\x7fELF" + bytes(60)])
def test_what_is_no_library(data: bytes) -> None:
    with pytest.raises(LoweringError, match="no Mach-O library"):
        read_mach_o(data)
