"""Programs from Python: what goes in, what comes out, who owns it."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from support import lower

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program, ValueInfo, _outputs, backends

Lowered = Callable[[str], Path]


@pytest.fixture
def mlp(lowered_programs: Lowered) -> Any:
    with Program(lowered_programs("mlp")) as program:
        yield program


@pytest.fixture
def model_and_inputs(example_models: dict[str, Callable[[], Any]]) -> Any:
    return example_models["mlp"]()


def test_names_and_specs(mlp: Program) -> None:
    assert mlp.methods == ("forward",)
    method = mlp.method()
    assert method.inputs == (ValueInfo("tensor", "float32", (4, 64)),)
    assert method.outputs == (ValueInfo("tensor", "float32", (4, 64)),)
    assert repr(method) == "<method 'forward': (input: float32[4, 64]) -> (float32[4, 64])>"
    assert repr(mlp).endswith(": forward(input: float32[4, 64]) -> (float32[4, 64])>")


def test_torch_in_torch_out(mlp: Program, model_and_inputs: Any) -> None:
    model, (x,) = model_and_inputs
    (result,) = mlp(x)
    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, model(x).detach(), rtol=1e-4, atol=1e-5)


def test_numpy_in_numpy_out(mlp: Program, model_and_inputs: Any) -> None:
    model, (x,) = model_and_inputs
    (result,) = mlp(x.numpy())
    assert isinstance(result, numpy.ndarray)
    assert result.dtype == numpy.float32
    numpy.testing.assert_allclose(result, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


class OnlyDlpack:
    """A tensor of some other library."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def test_dlpack_in_numpy_out(mlp: Program, model_and_inputs: Any) -> None:
    _, (x,) = model_and_inputs
    (result,) = mlp(OnlyDlpack(x))
    assert isinstance(result, numpy.ndarray)
    numpy.testing.assert_array_equal(result, mlp(x)[0].numpy())


def test_dlpack_memory_is_given_back(mlp: Program) -> None:
    import weakref

    tensor = torch.randn(4, 64)
    watched = weakref.ref(tensor)
    mlp(OnlyDlpack(tensor))
    del tensor
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize(
    "strided",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: torch.stack([x, x], dim=-1)[..., 1],
        lambda x: torch.cat([x, x])[4:],
        lambda x: x.flip(0).flip(0),
        lambda x: x[0].expand(4, 64),
    ],
    ids=["transposed", "step two", "offset", "flipped", "expanded"],
)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: x.numpy(), OnlyDlpack])
def test_layouts(mlp: Program, strided: Any, wrap: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    x = strided(torch.randn(4, 64, generator=generator))
    expected = mlp(x.contiguous())[0]
    found = torch.as_tensor(mlp(wrap(x))[0])
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_layouts_do_not_stick(mlp: Program) -> None:
    """A contiguous input after a strided one of the same shape, with one method."""
    x = torch.randn(4, 64)
    expected = mlp(x)[0]
    mlp(x.t().contiguous().t())
    torch.testing.assert_close(mlp(x)[0], expected, rtol=0, atol=0)


def test_numpy_negative_strides_and_byte_order(mlp: Program) -> None:
    x = numpy.random.default_rng(0).standard_normal((4, 64), dtype=numpy.float32)
    (expected,) = mlp(x)
    backwards = x[::-1].copy()[::-1]
    assert backwards.strides[0] < 0
    numpy.testing.assert_array_equal(mlp(backwards)[0], expected)
    numpy.testing.assert_array_equal(mlp(x.astype(">f4"))[0], expected)
    frozen = x.copy()
    frozen.flags.writeable = False
    numpy.testing.assert_array_equal(mlp(frozen)[0], expected)


def test_negative_bit_and_gradients(mlp: Program) -> None:
    x = torch.randn(4, 64)
    negated = torch.complex(x, -x).conj().imag
    assert negated.is_neg()
    torch.testing.assert_close(mlp(negated)[0], mlp(x)[0], rtol=0, atol=0)
    result = mlp(torch.nn.Parameter(x))[0]
    assert not result.requires_grad


def test_outputs_belong_to_the_caller(mlp: Program) -> None:
    first = mlp(torch.randn(4, 64))[0]
    before = first.clone()
    mlp(torch.randn(4, 64))
    torch.testing.assert_close(first, before, rtol=0, atol=0)


@pytest.mark.parametrize("count", [2, 40000])
def test_large_outputs_are_copied_as_they_lie(count: int) -> None:
    view = torch.arange(count * 3.0).view(3, count).t()
    found = _outputs._copied(view)
    assert found.stride() == view.stride()
    assert torch.equal(found, view)
    view.zero_()
    assert found.any()


def test_views_show_the_next_call(mlp: Program) -> None:
    a, b = torch.randn(4, 64), torch.randn(4, 64)
    expected = mlp(b)[0]
    for convert in (lambda x: x, lambda x: x.numpy()):
        method = mlp.method()
        (view,) = method(convert(a), copy=False)
        method(convert(b), copy=False)
        torch.testing.assert_close(torch.as_tensor(view), expected, rtol=0, atol=0)


class ReturnsItsInput(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x * 2


def test_large_inputs_are_read_where_they_are() -> None:
    numbers = torch.randn(128 * 64 + 1).numpy()
    fixed = numbers[1:].reshape(128, 64).copy()
    fixed.flags.writeable = False
    with Program(bytes(lower(ReturnsItsInput(), (torch.randn(128, 64),)).buffer)) as program:
        method = program.method()
        for x in (numbers[:-1].reshape(128, 64), numbers[1:].reshape(128, 64), fixed):
            expected = x.copy()
            same, twice = method(x, copy=False)
            assert same.ctypes.data == x.ctypes.data
            numpy.testing.assert_array_equal(twice, expected * 2)
            numpy.testing.assert_array_equal(x, expected)
            with pytest.raises(ProgramError, match="expected"):
                method(numpy.zeros((64, 128), numpy.float32))
        tensor = torch.from_numpy(expected.copy())
        same, _ = method(tensor)
        tensor.zero_()
        numpy.testing.assert_array_equal(same.numpy(), expected)


class Step(torch.nn.Module):
    """What it gives second is memory of its input, in another order."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.flip(0) * 0.5, x.t()


def test_what_a_call_gave_may_be_what_the_next_one_takes() -> None:
    x = torch.randn(256, 64)
    with Program(bytes(lower(Step(), (x,)).buffer)) as program:
        method = program.method()
        expected = found = x
        for _ in range(4):
            expected, expected_turned = Step()(expected)
            found, turned = method(found, copy=False)
            torch.testing.assert_close(turned, expected_turned)
            torch.testing.assert_close(found, expected)


def test_a_view_outlives_its_method(lowered_programs: Lowered) -> None:
    x = torch.randn(4, 64)
    program = Program(lowered_programs("mlp"))
    method = program.method()
    (expected,) = method(x)
    (view,) = method(x, copy=False)
    del method, program
    gc.collect()
    torch.testing.assert_close(view, expected, rtol=0, atol=0)


@pytest.mark.parametrize("convert", [lambda x: x, lambda x: x.numpy()], ids=["torch", "numpy"])
def test_a_view_outlives_the_closing_of_its_program(
    lowered_programs: Lowered, convert: Any
) -> None:
    """A result of ``copy=False`` shows the same bytes after method and program are closed."""
    x = torch.randn(4, 64)
    program = Program(lowered_programs("mlp"))
    method = program.method()
    (expected,) = program(x)
    (view,) = method(convert(x), copy=False)
    native = weakref.ref(method._native)
    method.close()
    program.close()
    others = [torch.full_like(expected, 7.0) for _ in range(100)]  # take freed memory, if any
    torch.testing.assert_close(torch.as_tensor(view), expected, rtol=0, atol=0)
    assert native() is not None
    assert len(others) == 100
    del view
    gc.collect()
    assert native() is None, "the memory is not freed with the last view"


def test_from_bytes(lowered_programs: Lowered, mlp: Program) -> None:
    data = lowered_programs("mlp").read_bytes()
    x = torch.randn(4, 64)
    for source in (data, bytearray(data), memoryview(data)):
        with Program(source) as program:
            torch.testing.assert_close(program(x), mlp(x), rtol=0, atol=0)


def test_bfloat16(lowered_programs: Lowered, example_models: dict[str, Callable[[], Any]]) -> None:
    model, (tokens,) = example_models["transformer_bf16"]()
    expected = model(tokens).detach().float()
    with Program(lowered_programs("transformer_bf16")) as program:
        (ours,) = program(tokens)
        assert ours.dtype == torch.bfloat16
        tolerance = 2e-2 * expected.abs().max().item()
        torch.testing.assert_close(ours.float(), expected, rtol=0, atol=tolerance)
        (array,) = program(tokens.numpy())
        assert array.dtype.name == "bfloat16"
        numpy.testing.assert_array_equal(array.astype("f4"), ours.float().numpy())


def test_close(lowered_programs: Lowered) -> None:
    program = Program(lowered_programs("mlp"))
    method = program.method()
    program.close()
    program.close()
    assert repr(program).endswith(", closed>")
    with pytest.raises(ProgramError, match=r"mlp.pte' is closed"):
        program(torch.randn(4, 64))
    with pytest.raises(ProgramError, match=r"mlp.pte' is closed"):
        program.method()
    with pytest.raises(ProgramError, match=r"^method 'forward' is closed$"):
        method(torch.randn(4, 64))


def test_calls_on_the_cpu_are_not_begun(mlp: Program, model_and_inputs: Any) -> None:
    method, (_, (x,)) = mlp.method(), model_and_inputs
    assert method.can_begin is False
    with pytest.raises(ProgramError, match="cannot be begun and finished apart"):
        method.begin(x)
    with pytest.raises(ProgramError, match="cannot be begun and finished apart"):
        method.finish()
    with pytest.raises(ProgramError, match="got 0 inputs, expected 1"):
        method.begin()
    with pytest.raises(ProgramError, match="expected float32"):
        method.begin(x.double())
    torch.testing.assert_close(method(x), mlp(x))
    method.close()
    for use in (lambda: method.begin(x), method.finish):
        with pytest.raises(ProgramError, match="is closed"):
            use()


def test_what_is_begun_says_what_the_outputs_are(
    mlp: Program, model_and_inputs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, (_, (x,)) = mlp.method(), model_and_inputs
    outputs = method._arguments[3:]

    def begin(address: int, inputs: int, count: int) -> int:
        return int(method._runner.execute(address, inputs, count, *outputs))

    monkeypatch.setattr(method._runner, "begin", begin)
    monkeypatch.setattr(method._runner, "finish", lambda *arguments: 0)
    for kind, value in ((torch.Tensor, x), (numpy.ndarray, x.numpy())):
        method.begin(value)
        (found,) = method.finish()
        assert isinstance(found, kind)
        numpy.testing.assert_array_equal(found, mlp(x)[0])
    method.begin(x)
    method.begin(x.numpy())
    assert [type(method.finish()[0]) for _ in range(2)] == [torch.Tensor, numpy.ndarray]


def test_backends() -> None:
    assert "AotiCpuBackend" in backends()


def test_needs_neither_torch_nor_executorchs_python(lowered_programs: Lowered) -> None:
    code = f"""
import sys, numpy
from aoti_plugins.runtime import Program
(out,) = Program({str(lowered_programs("mlp"))!r})(numpy.ones((4, 64), "f4"))
assert type(out) is numpy.ndarray and out.shape == (4, 64)
loaded = [name for name in sys.modules if name.split(".")[0] in ("torch", "executorch")]
assert not loaded, loaded
maps = open("/proc/self/maps").read()
assert "libexecutorch_backend_aoti" in maps
assert "libtorch" not in maps and "libc10" not in maps, "libtorch is in the process"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
