"""What single patches do, and what a PyTorch that they do not fit leads to."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from support import ROOT
from torch._inductor import cpu_vec_isa, graph

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import PatchError
from aoti_plugins.lowering.inductor import generate as generation
from aoti_plugins.lowering.inductor import versions
from aoti_plugins.lowering.inductor.generate import generate
from aoti_plugins.lowering.inductor.vector_isa import vector_isa


@pytest.mark.parametrize(
    ("name", "width"), [("avx512", 512), ("avx2", 256), ("neon", 128), ("scalar", 0)]
)
def test_vector_isa_is_the_targets(name: str, width: int) -> None:
    with vector_isa(name):
        isa = cpu_vec_isa.pick_vec_isa()
    assert bool(isa) == (name != "scalar")
    if width:
        assert isa.bit_width() == width


def test_unknown_vector_isa() -> None:
    with pytest.raises(KeyError, match="sse9"), vector_isa("sse9"):
        pass


class _Softmax(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x.softmax(-1),)


def _generate(times: int = 1) -> None:
    for _ in range(times):
        generate(torch.fx.symbolic_trace(_Softmax()), [torch.ones(2, 2)], {}, nullcontext())


def test_a_patch_whose_target_is_gone_names_itself_and_the_version_of_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generation, "warn_if_untested", lambda: None)
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    monkeypatch.delattr(graph, "fallback_handler")
    message = (
        r"the patch aoti_plugins\.lowering\.inductor\.row_major_transforms\.row_major_transforms "
        r"does not fit PyTorch 2\.99\.0: .*fallback_handler'.* tested with PyTorch 2\.11 to 2\.15"
    )
    with pytest.raises(PatchError, match=message):
        _generate()


def test_a_patch_whose_target_takes_something_else_says_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph, "fallback_handler", lambda kernel, eager: None)
    message = (
        r"row_major_transforms does not fit PyTorch .*: "
        r"'torch\._inductor\.graph\.fallback_handler' takes \(kernel, eager\), "
        r"expected \(kernel, add_to_fallback_set\)"
    )
    with pytest.raises(PatchError, match=message):
        _generate()


def test_a_missing_target_is_no_unsupported_op(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = torch.export.export(torch.nn.Softmax(-1), (torch.ones(2, 2),))
    monkeypatch.delattr(graph, "fallback_handler")
    with pytest.raises(PatchError, match="row_major_transforms"):
        to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])


@pytest.mark.parametrize(("name", "newest"), [("TORCH", "PyTorch"), ("TRITON", "Triton")])
def test_one_warning_beyond_the_tested_versions(
    name: str, newest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions.warn_if_untested.cache_clear()
    monkeypatch.setattr(versions, f"NEWEST_{name}", (1, 7))
    with pytest.warns() as warned:
        _generate(times=2)
    versions.warn_if_untested.cache_clear()
    (one,) = (one for one in warned if one.category is versions.UntestedVersionWarning)
    assert f"not tested with {newest} " in str(one.message)
    assert "(newest tested: 1.7)" in str(one.message)


def test_no_warning_with_the_versions_that_were_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_installed", lambda package: "3.9.1")
    for found in ("2.11.0+cu130", "2.13.0+cpu", "2.15.2"):
        versions.warn_if_untested.cache_clear()
        monkeypatch.setattr(torch, "__version__", found)
        versions.warn_if_untested()  # a warning is an error in these tests
    versions.warn_if_untested.cache_clear()


def test_the_matrix_that_is_tested_is_the_one_that_is_supported() -> None:
    makefile = (ROOT / "Makefile").read_text()
    found = re.search(r"^TESTED_TORCH := (.*)$", makefile, re.M)
    assert found is not None
    tested = [tuple(map(int, one.split(".")[:2])) for one in found[1].split()]
    assert (tested[0], tested[-1]) == (versions.OLDEST_TORCH, versions.NEWEST_TORCH)
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    quoted = ", ".join(f'"{one}"' for one in found[1].split())
    assert f"torch: [{quoted}]" in workflow
