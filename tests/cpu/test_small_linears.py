"""Products with weights of 4 and 8 bits on the CPU: recognised, and as exact as they should be."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
from each_model import Each
from executorch.exir import to_edge_transform_and_lower
from small_weight_cases import CONFIGS, WIDTH, dequantised, quantised
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from aoti_plugins import CpuPartitioner
from aoti_plugins.cpu.passes.small_linears import small_linears
from aoti_plugins.lowering.passes.scaled_products import scaled_products
from aoti_plugins.runtime._libraries import product_kernels

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

Called = Callable[[ExportedProgram], list[str]]
Run = Callable[..., list[Tensor]]

OURS = "aoti_plugins::small_linear"
DYNAMIC = {
    "8da4w, groups of 32": (torch.int4, PerGroup(32)),
    "8da4w, rows": (torch.int4, PerAxis(0)),
    "8da8w, rows": (torch.int8, PerAxis(0)),
    "8da8w, groups of 64": (torch.int8, PerGroup(64)),
}


def dynamic(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Two products whose other factor becomes 8-bit numbers, row by row."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, 24, bias=False))
    weight, granularity = DYNAMIC[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = Int8DynamicActivationIntxWeightConfig(
            weight_dtype=weight, weight_granularity=granularity
        )
        quantize_(model.to(dtype).eval(), config)
    return model


def aten(model: nn.Module, x: Tensor, everything: bool = False) -> ExportedProgram:
    return export(model, (x,)).run_decompositions(None if everything else {})


@pytest.mark.parametrize("name", CONFIGS)
def test_products_are_replaced(called: Called, name: str) -> None:
    x = torch.randn(3, WIDTH)
    program = aten(quantised(name, torch.float32), x, name == "int8 by a cast")
    expected = program.module()(x)
    scaled_products(program)
    small_linears(program)
    names = called(program)
    assert names.count(OURS) == 2
    assert not {"torchao::dequantize_affine", "aten::_to_copy", "aten::mm"} & set(names)
    torch.testing.assert_close(program.module()(x), expected)


@pytest.mark.parametrize("name", DYNAMIC)
def test_codes_of_rows_are_multiplied(called: Called, name: str) -> None:
    x = torch.randn(2, 3, WIDTH)
    program = aten(dynamic(name), x)
    expected = program.module()(x)
    small_linears(program)
    names = called(program)
    assert names.count(OURS) == 2
    assert names.count("torchao::quantize_affine") == 2
    assert "torchao::dequantize_affine" not in names
    torch.testing.assert_close(program.module()(x), expected)


def test_results_are_those_of_dequantised_weights(run: Run) -> None:
    cases = [(quantised(name, torch.float32), rows) for name in CONFIGS for rows in (1, 5, 40)]
    inputs = [torch.randn(rows, WIDTH) for _, rows in cases]
    found = run(Each(model for model, _ in cases), inputs)
    for (model, _), x, result in zip(cases, inputs, found, strict=True):
        expected = dequantised(model)(x.double())
        torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_errors_of_16_bits_are_those_of_one_rounding(run: Run, dtype: torch.dtype) -> None:
    model, x = quantised("int4, groups of 32", dtype), torch.randn(4, WIDTH, dtype=dtype)
    (found,) = run(model, x)
    expected = dequantised(model)(x.double())
    error = (found.double() - expected).abs().mean()
    with torch.no_grad():
        eager = (model(x).double() - expected).abs().mean()
    assert error <= 1.2 * eager


def test_results_with_codes_are_those_of_eager(run: Run) -> None:
    cases = [(name, dtype) for name in DYNAMIC for dtype in (torch.float32, torch.bfloat16)]
    models = [dynamic(*case) for case in cases]
    inputs = [torch.randn(6, WIDTH, dtype=dtype) for _, dtype in cases]
    found = run(Each(models), inputs)
    for (name, dtype), model, x, result in zip(cases, models, inputs, found, strict=True):
        with torch.no_grad():
            expected = model(x)
        # XNNPACK holds scales of groups in 16 bits, and a code may be rounded the other way.
        exact = "groups of 32" not in name and dtype == torch.float32
        most = expected.abs().max() * (2e-3 if exact else 2e-2)
        assert (result - expected).abs().max() <= most


@pytest.mark.parametrize("name", ["int4, groups of 32", "8da4w, groups of 32"])
def test_any_number_of_rows(run: Run, name: str) -> None:
    model = dynamic(name) if name in DYNAMIC else quantised(name, torch.float32)
    x = torch.randn(9, WIDTH)
    (found,) = run(model, x, dynamic_shapes=({0: Dim("rows", max=64)},))
    with torch.no_grad():
        expected = model(x)
    assert (found - expected).abs().max() <= 1e-2 * expected.abs().max()


@pytest.mark.parametrize("name", ["int8, rows", "8da8w, rows", "8da4w, groups of 32"])
def test_without_xnnpack(tmp_path: Path, name: str) -> None:
    """A process of its own: the library is looked for once."""
    model = dynamic(name) if name in DYNAMIC else quantised(name, torch.float32)
    x = torch.randn(3, WIDTH)
    lowered = to_edge_transform_and_lower(export(model, (x,)), partitioner=[CpuPartitioner()])
    program, inputs, outputs = (tmp_path / one for one in ("m.pte", "x.npy", "y.npy"))
    program.write_bytes(lowered.to_executorch().buffer)
    code = (
        "import sys, numpy; from aoti_plugins.runtime import Program; "
        "(y,) = Program(sys.argv[1])(numpy.load(sys.argv[2])); numpy.save(sys.argv[3], y); "
        "from aoti_plugins.runtime._libraries import product_kernels; print(product_kernels())"
    )
    numpy.save(inputs, x.numpy())
    command = [sys.executable, "-c", code, str(program), str(inputs), str(outputs)]
    variables = {**os.environ, "AOTI_PLUGINS_XNNPACK": "off"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "aoti_plugins: AOTI_PLUGINS_XNNPACK is off"
    with torch.no_grad():
        torch.testing.assert_close(
            torch.from_numpy(numpy.load(outputs)), model(x), rtol=1e-3, atol=1e-3
        )


def test_the_wheels_xnnpack_is_used() -> None:
    assert product_kernels().startswith("XNNPACK in ")


def test_a_library_without_xnnpack_is_not_used() -> None:
    code = "from aoti_plugins.runtime._libraries import product_kernels; print(product_kernels())"
    for path, reason in (("/nowhere.so", "cannot open"), ("libm.so.6", "xnn_")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "AOTI_PLUGINS_XNNPACK": path},
            capture_output=True,
            text=True,
            check=True,
        )
        last = done.stdout.splitlines()[-1]
        assert last.startswith(f"aoti_plugins: no XNNPACK in {path}: ")
        assert reason in last
