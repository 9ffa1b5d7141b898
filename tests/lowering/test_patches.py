"""Every patch of PyTorch's insides works inside its block, and the original is back afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from support import ROOT
from torch._higher_order_ops import triton_kernel_wrap
from torch._inductor import codecache, compile_fx, cpu_vec_isa, graph, lowering
from torch._inductor.codegen import cpp, cpp_micro_gemm
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import PatchError
from aoti_plugins.lowering.inductor import generate as generation
from aoti_plugins.lowering.inductor import versions
from aoti_plugins.lowering.inductor.capture import captured_code
from aoti_plugins.lowering.inductor.generate import generate
from aoti_plugins.lowering.inductor.inputs_in_memory import inputs_in_memory
from aoti_plugins.lowering.inductor.libtorch_only import math_attention, no_onednn
from aoti_plugins.lowering.inductor.no_triton import no_launch_in_decompositions, no_triton
from aoti_plugins.lowering.inductor.parallel_threshold import parallel_threshold
from aoti_plugins.lowering.inductor.row_major_transforms import row_major_transforms
from aoti_plugins.lowering.inductor.scalar_constants import scalar_constants
from aoti_plugins.lowering.inductor.scatter_to_one_place import scatter_to_one_place
from aoti_plugins.lowering.inductor.size_checks import size_checks
from aoti_plugins.lowering.inductor.stored_values import stored_values
from aoti_plugins.lowering.inductor.symbolic_inputs import symbolic_inputs
from aoti_plugins.lowering.inductor.vector_isa import vector_isa


def _state() -> dict[str, Any]:
    return {
        "compile": codecache.AotCodeCompiler.__dict__["compile"],
        "pick": cpu_vec_isa.pick_vec_isa,
        "pick in codecache": codecache.pick_vec_isa,
        "pick in gemm": cpp_micro_gemm.pick_vec_isa,
        "onednn": torch._C._get_mkldnn_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "launch": triton_kernel_wrap.TritonKernelWrapperFunctional.__call__,
        "launch in place": triton_kernel_wrap.TritonKernelWrapperMutation.__call__,
        "depth": cpp.CppKernel.decide_parallel_depth,
        "vector store": cpp.CppVecKernel.store,
        "flatten": compile_fx._aoti_flatten_inputs,
        "extract": compile_fx._extract_inputs_from_exported_gm,
        "checks": CppWrapperCpu.generate_input_output_runtime_checks,
        "constructor": CppWrapperCpu.codegen_model_constructor,
        "inputs": CppWrapperCpu.codegen_inputs,
        "transforms": graph.fallback_handler,
        "stored": lowering.lowerings.get(torch.ops.aoti_plugins.stored.default),
        "functions": graph.GraphLowering.call_function,
        "constants": graph.GraphLowering.get_attr,
        "grad": torch.is_grad_enabled(),
    }


PATCHES: list[tuple[Callable[[], AbstractContextManager[Any]], set[str]]] = [
    (captured_code, {"compile"}),
    (lambda: vector_isa("scalar"), {"pick", "pick in codecache", "pick in gemm"}),
    (no_onednn, {"onednn"}),
    (no_triton, {"launch", "launch in place"}),
    (no_launch_in_decompositions, {"launch", "launch in place"}),
    (math_attention, {"flash"}),
    (parallel_threshold, {"depth"}),
    (scatter_to_one_place, {"vector store"}),
    (symbolic_inputs, {"flatten", "extract", "checks", "constructor"}),
    (size_checks, {"inputs"}),
    (row_major_transforms, {"transforms"}),
    (stored_values, {"stored"}),
    (scalar_constants, {"constants"}),
    (lambda: inputs_in_memory(()), {"functions"}),
]


@pytest.mark.parametrize(
    ("patch", "changed"),
    PATCHES,
    ids=[
        "capture",
        "isa",
        "onednn",
        "triton",
        "decomposed",
        "attention",
        "threads",
        "scatter",
        "numbers",
        "sizes",
        "transforms",
        "stored",
        "constants",
        "memory",
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_patch_and_way_back(
    patch: Callable[[], AbstractContextManager[Any]], changed: set[str], fails: bool
) -> None:
    before = _state()
    try:
        with patch():
            inside = _state()
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert {key for key in before if before[key] is not inside[key]} == changed
    assert _state() == before


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
        r"does not fit PyTorch 2\.99\.0: .*'fallback_handler'.* tested with PyTorch 2\.11 to 2\.15"
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
