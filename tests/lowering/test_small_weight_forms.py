"""Weights in ExecuTorch's forms: read exactly, lowered whole, held in their few bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.extension.llm.export import gguf as executorchs
from executorch.extension.llm.export.mx import ExportableMXConfig
from exportable_weights import FORMS, OneProduct, gguf_of, quantised_by, values_of
from support import lower
from torch.utils._python_dispatch import TorchDispatchMode

from aoti_plugins.lowering.decompositions import of_libraries
from aoti_plugins.lowering.small_weights import floats, gguf
from aoti_plugins.lowering.small_weights.fields import fields
from aoti_plugins.runtime import Program

N, K = 24, 512

BITS_OF_A_WEIGHT = {
    "int4": 4 + 32 / 32,
    "int4, groups of 128": 4 + 32 / 128,
    "q4_k": 144 * 8 / 256,
    "q5_k": 176 * 8 / 256,
    "q6_k": 210 * 8 / 256,
    "nvfp4": 4 + 8 / 16,
    "mxfp8": 8 + 8 / 32,
}


@pytest.mark.parametrize("dtype", floats.BY_DTYPE, ids=str)
def test_floats_of_8_bits(dtype: torch.dtype) -> None:
    bits = torch.arange(256, dtype=torch.uint8)
    found = floats.BY_DTYPE[dtype](bits.to(torch.int32))
    expected = bits.view(dtype).float()
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_floats_of_4_bits() -> None:
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    found = floats.float4_e2m1(torch.arange(16, dtype=torch.int32))
    assert found.tolist() == positive + [-value for value in positive]


@pytest.mark.parametrize("bits", [4, 8])
def test_fields_of_words(bits: int) -> None:
    words = torch.tensor([[0x76543210, -1]], dtype=torch.int32)
    low = [0, 1, 2, 3, 4, 5, 6, 7] if bits == 4 else [0x10, 0x32, 0x54, 0x76]
    assert fields(words, 32, bits).tolist() == [low + [2**bits - 1] * (32 // bits)]


@pytest.mark.parametrize("kind", gguf.NBYTES)
def test_blocks_are_read_as_executorch_reads_them(kind: str) -> None:
    torch.manual_seed(1)
    raw = gguf_of(N, K, torch.bfloat16, kind).raw
    found = gguf.read(raw, kind)
    codes, scale, *minimum = getattr(executorchs, f"_{kind}_fields")(raw, N, K)
    assert torch.equal(found.codes.flatten(1), codes.to(torch.int32))
    assert torch.equal(found.scale, scale)
    assert found.minimum is None if not minimum else torch.equal(found.minimum, minimum[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["int4", "int4, groups of 128", "nvfp4", "mxfp8", "mxfp8, e5m2"])
def test_decompositions_equal_the_ops(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    if name == "mxfp8, e5m2":
        weight = quantised_by(ExportableMXConfig(torch.float8_e5m2), 32, K, torch.bfloat16)
    else:
        weight = FORMS[name](32, K, torch.bfloat16)
    table = of_libraries()
    calls = 0

    class Compare(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal calls
            expected = func(*args, **(kwargs or {}))
            if func in table:
                calls += 1
                assert torch.equal(table[func](*args, **(kwargs or {})), expected)
            return expected

    with Compare():
        assert weight.dequantize(dtype).dtype == dtype
    assert calls == 1


@pytest.mark.parametrize("name", FORMS)
def test_a_program_holds_few_bits_and_is_right(name: str) -> None:
    torch.manual_seed(3)
    weight, x = FORMS[name](32, K, torch.bfloat16), torch.randn(3, K).bfloat16()
    lowered = lower(OneProduct(weight).eval(), (x,))
    file = deserialize_pte_binary(lowered.buffer)
    assert file.program.execution_plan[0].operators == []
    weights = sum(
        len(file.named_data.buffers[entry.buffer_index])
        for key, entry in file.named_data.pte_data.items()
        if key.endswith("_weights_blob")
    )
    needed = 32 * K * BITS_OF_A_WEIGHT[name] / 8
    assert needed <= weights <= 1.05 * needed + 64
    with Program(bytes(lowered.buffer)) as program:
        (found,) = program(x)
    exact = values_of(weight)
    usual = (x @ exact.bfloat16().t()).double()
    expected = x.double() @ exact.t()
    assert (found.double() - expected).norm() <= 1.2 * (usual - expected).norm()
