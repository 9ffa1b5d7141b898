"""Products with weights of 4 and 8 bits: recognised, laid out and lowered."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exportable_weights import FORMS, OneProduct, gguf_of
from exportable_weights import values_of as executorchs_values
from small_weight_cases import CONFIGS, HIDDEN, WIDTH, quantised
from support import lower
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torchao.quantization import quantize_

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.small_weights import constants_of, small_weights
from aoti_plugins.cuda.small_weights import layout
from aoti_plugins.lowering.decompositions.int4 import mm_for_tensor_cores
from aoti_plugins.lowering.passes.scaled_products import scaled_products
from aoti_plugins.lowering.small_weights.weight import ADDED_ZERO, SmallWeight


class Packed(nn.Module):
    """A weight as torchao packs it on an NVIDIA GPU; any bits are one."""

    def __init__(self, group_size: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        packed = torch.randint(-(2**31), 2**31, (HIDDEN // 8, WIDTH // 128, 32, 4))
        self.group_size = group_size
        self.register_buffer("packed", packed.to(torch.int32))
        self.register_buffer("scales", torch.randn(WIDTH // group_size, HIDDEN, 2).bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aten._weight_int4pack_mm(x, self.packed, self.group_size, self.scales)


def exported(name: str, x: Tensor) -> ExportedProgram:
    program = export(quantised(name, x.dtype), (x,))
    return program.run_decompositions(None if name == "int8 by a cast" else {})


def targets(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("k", [64, 200, 256])
def test_codes_are_found_again(bits: int, k: int) -> None:
    low, high, dtype = (0, 16, torch.uint8) if bits == 4 else (-128, 128, torch.int8)
    codes = torch.randint(low, high, (24, k), dtype=dtype)
    packed = layout.pack_codes(codes, bits)
    assert packed.shape == (3, -(-k // layout.DEPTH[bits]), 512)
    assert torch.equal(layout.unpack_codes(packed, bits, k).to(dtype), codes)
    groups = torch.randn(24, 5)
    assert torch.equal(layout.unpack_groups(layout.pack_groups(groups)), groups)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONFIGS)
def test_products_are_replaced_and_equal(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, WIDTH).to(dtype)
    program = exported(name, x)
    expected = copy.deepcopy(program).module()(x)
    scaled_products(program)
    small_weights(program)
    found = program.module()(x)
    assert targets(program).count("aoti_plugins.fused_linear.default") == 2
    assert not any("dequantize" in target or "mm" in target for target in targets(program))
    # Sums here are of float32, and weights are not rounded to 16 bits.
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("group_size", [32, 128, 256])
def test_packed_weights_are_replaced_and_equal(group_size: int) -> None:
    model, x = Packed(group_size), torch.randn(3, WIDTH).bfloat16()
    program = export(model, (x,))
    small_weights(program)
    assert targets(program) == ["aoti_plugins.fused_linear.default"]
    expected = mm_for_tensor_cores(x.float(), model.packed, group_size, model.scales.float())
    torch.testing.assert_close(program.module()(x).float(), expected, rtol=0.01, atol=0.5)


EXECUTORCHS = ("int4", "int4, groups of 128", "q4_k", "q5_k")
"""Its forms of which the kernels take products."""


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_weights_of_executorch(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    weight, x = FORMS[name](HIDDEN, 512, dtype), torch.randn(3, 512).to(dtype)
    program = export(OneProduct(weight), (x,)).run_decompositions({})
    small_weights(program)
    if name not in EXECUTORCHS:
        assert not any("fused_linear" in target for target in targets(program))
        return
    assert targets(program) == ["aoti_plugins.fused_linear.default"]
    expected = x.double() @ executorchs_values(weight).t()
    usual = x @ executorchs_values(weight).to(dtype).t()
    error = (program.module()(x).double() - expected).norm()
    assert error <= 1.2 * (usual.double() - expected).norm()


@pytest.mark.parametrize("name", FORMS)
def test_programs_with_weights_of_executorch_are_whole(
    name: str, tmp_path: Path, contents: Callable[[Path], Any]
) -> None:
    torch.manual_seed(4)
    x, path = torch.randn(2, 512).bfloat16(), tmp_path / "model.pte"
    model = OneProduct(FORMS[name](HIDDEN, 512, torch.bfloat16))
    path.write_bytes(lower(model, (x,), partitioner=CudaPartitioner(target="h100")).buffer)
    (payload,), blobs, outside = contents(path)
    assert outside == []
    called = "aoti_torch_cuda_fused_linear" in payload.targets[0].symbols
    assert called == (name != "q6_k")  # which has an op of its own
    weights = sum(len(data) for key, data in blobs.items() if key.endswith("_weights_blob"))
    assert weights < HIDDEN * 512 * 2 * 0.7


class Odd(nn.Module):
    """Products that the kernels do not take."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Linear(WIDTH, 12, dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(x)


def test_what_the_kernels_do_not_take_stays() -> None:
    model = Odd().eval()
    quantize_(model, CONFIGS["int4, groups of 32"]())
    program = export(model, (torch.randn(2, WIDTH).bfloat16(),)).run_decompositions({})
    before = targets(program)
    small_weights(program)
    assert targets(program) == before
    program = exported("int4, groups of 32", torch.randn(2, WIDTH))
    before = targets(program)
    small_weights(program)
    assert targets(program) == before


def test_a_lowered_program_calls_the_kernel_and_holds_four_bits(
    tmp_path: Path, contents: Callable[[Path], Any]
) -> None:
    x = torch.randn(1, 1, WIDTH).bfloat16()
    model = quantised("int4, groups of 32")
    path = tmp_path / "model.pte"
    path.write_bytes(lower(model, (x,), partitioner=CudaPartitioner(target="h100")).buffer)
    payloads, blobs, outside = contents(path)
    (payload,) = payloads
    assert outside == []
    assert "aoti_torch_cuda_fused_linear" in payload.targets[0].symbols
    weights = sum(len(data) for key, data in blobs.items() if key.endswith("_weights_blob"))
    elements = WIDTH * HIDDEN + HIDDEN * 2 * 24
    needed = elements // 2 + elements // 32 * 2 + HIDDEN * 2  # codes, scales, a bias
    assert needed <= weights <= 1.05 * needed + 64 * len(blobs)


@pytest.mark.parametrize(
    ("kind", "has_half_scales", "dtype"),
    [
        ("q4_k", True, torch.float16),
        ("q4_k", False, torch.float32),
        ("q5_k", True, torch.float32),
    ],
    ids=str,
)
def test_scales_of_gguf_files(kind: str, has_half_scales: bool, dtype: torch.dtype) -> None:
    """Of two bytes where a kernel takes such."""
    torch.manual_seed(5)
    weight = gguf_of(HIDDEN, 512, torch.bfloat16, kind)
    program = export(OneProduct(weight), (torch.randn(1, 512).bfloat16(),)).run_decompositions({})
    small_weights(program, has_half_scales)
    (product,) = [one for one in program.graph.nodes if "fused_linear" in str(one.target)]
    assert {one.meta["val"].dtype for one in product.args[2:4]} == {dtype}


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_scales_stay_exact_where_two_bytes_do_not_hold_them(
    dtype: torch.dtype, factor: float
) -> None:
    """Small and large ones for bfloat16, any for float16, whose weights are no less exact."""
    torch.manual_seed(6)
    codes, scale = torch.randint(0, 16, (8, 64), dtype=torch.uint8), torch.rand(8, 2) + 0.5
    factor = factor if dtype == torch.bfloat16 else 1.0
    weight = SmallWeight("weight", codes, scale * factor, scale * factor, 4, ADDED_ZERO)
    program = export(nn.Identity(), (torch.zeros(1),))
    found = constants_of(program, weight, dtype, is_exact=False)
    assert found.scale.meta["val"].dtype == torch.float32
