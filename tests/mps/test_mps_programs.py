"""Programs for Apple GPUs, run by the real delegate and runtime over a stand-in for Metal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from filelock import FileLock
from mps_support import SCHEDULES
from support import ROOT, load_example, lower
from torch import nn
from torch.export import Dim, export

from aoti_plugins import MpsPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}
PROMPT = [17, 200, 5, 33, 255, 0, 42]
NEW_TOKENS = 6
# Of a mean and variance of Inductor's, and what follows.
BARRIER = "::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);\n"
# What comes behind one that is needed: in PyTorch's own text, which differs by version.
BEHIND_BARRIERS = ("float m = data[0];", "return data[0];")

pytestmark = pytest.mark.usefixtures("metal")


@pytest.fixture(params=SCHEDULES)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order in which the stand-in runs the threads of a group."""
    monkeypatch.setenv("METAL_HOST_SCHEDULE", request.param)


def _run(path: Path, inputs: tuple[Any, ...]) -> torch.Tensor:
    with Program(path) as program:
        return program(*inputs)[0].clone()


def _check(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Relative to the largest value: eager rounds more often than a kernel that fuses ops."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    error = (found.double() - expected.double()).abs().max() / expected.double().abs().max()
    assert error < TOLERANCE[expected.dtype]


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer", "transformer_bf16", "lstm"])
def test_equal_to_eager(
    name: str, mps_programs: Callable[..., Path], example_models: dict[str, Callable[[], Any]]
) -> None:
    model, inputs = example_models[name]()
    with torch.no_grad():
        expected = model(*inputs)
    _check(_run(mps_programs(name, "host"), inputs), expected)


@pytest.fixture(scope="module")
def float16_transformer(shared_dir: Path) -> Path:
    path = shared_dir / "transformer-float16.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            model, inputs = load_example("models").small_transformer(torch.float16)
            lowered = lower(model, inputs, partitioner=MpsPartitioner(target="host"))
            path.write_bytes(lowered.buffer)
    return path


@pytest.mark.usefixtures("schedule")
def test_float16(float16_transformer: Path) -> None:
    model, inputs = load_example("models").small_transformer(torch.float16)
    with torch.no_grad():
        expected = model(*inputs)
    _check(_run(float16_transformer, inputs), expected)


class _Weights(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        op = torch.ops.aten._scaled_dot_product_attention_math_for_mps
        found, weights = op(q, k, v)
        return found + op(q, k, v)[0], weights


def test_the_weights_of_attention(tmp_path: Path) -> None:
    """The kernels do not keep them; where a program asks for them, they are computed in parts."""
    q, k, v = (torch.randn(1, 4, n, 8) for n in (5, 7, 7))
    path = tmp_path / "weights.pte"
    path.write_bytes(lower(_Weights(), (q, k, v), partitioner=MpsPartitioner(target="host")).buffer)
    weights = (q @ k.mT / 8**0.5).softmax(-1)
    with Program(path) as program:
        for found, expected in zip(program(q, k, v), (weights @ v * 2, weights), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


CHECKED = """
    import sys, torch
    from aoti_plugins.runtime import Program
    inputs, expected = torch.load(sys.argv[2])
    try:
        with Program(sys.argv[1]) as program:
            found = program(*inputs)[0]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        print("right")
    except Exception as error:
        print(error)
"""


@pytest.mark.parametrize("is_faulty", [False, True], ids=["right", "no barrier"])
def test_with_every_access_to_memory_checked(
    is_faulty: bool,
    mps_programs: Callable[..., Path],
    example_models: dict[str, Callable[[], Any]],
    run_python: Callable[..., str],
    tmp_path: Path,
) -> None:
    """In a process that has built no kernel yet; that it looks is seen where a barrier is gone."""
    model, inputs = example_models["transformer"]()
    with torch.no_grad():
        torch.save((inputs, model(*inputs)), tmp_path / "values.pt")
    environment = {"METAL_HOST_CHECK": "1"}
    program = mps_programs("transformer", "host")
    if is_faulty:
        text = program.read_bytes()
        behind = next(one for one in BEHIND_BARRIERS if (BARRIER + one).encode() in text)
        compiler = ROOT / "tests" / "mps_kernels" / "faulty_compile.py"
        environment |= {
            "AOTI_PLUGINS_METAL_COMPILER": f"{sys.executable} {compiler}",
            "METAL_FAULT_OLD": BARRIER + behind,
            "METAL_FAULT_NEW": behind,
            "PYTHONPATH": str(ROOT / "tests"),
        }
    said = "without a barrier" if is_faulty else "right"
    assert said in run_python(CHECKED, program, tmp_path / "values.pt", **environment)


def decoder() -> nn.Module:
    """A fresh decoder with empty caches and always the same weights."""
    torch.manual_seed(0)
    return load_example("models").CachedDecoder(capacity=32).eval()


def step(tokens: list[int], start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens ``[1, n]`` and their positions ``[n]``."""
    return torch.tensor([tokens]), torch.arange(start, start + len(tokens))


@pytest.fixture(scope="module")
def generator(shared_dir: Path) -> Path:
    """A program with ``prefill`` (1 to 16 tokens) and ``decode`` (one)."""
    path = shared_dir / "mps-generator.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            model, length = decoder(), Dim("length", min=1, max=16)
            programs = {
                "prefill": export(
                    model, step([1, 2, 3], 0), dynamic_shapes=({1: length}, {0: length})
                ),
                "decode": export(model, step([1], 3)),
            }
            partitioner = MpsPartitioner(target="host")
            lowered = to_edge_transform_and_lower(programs, partitioner=[partitioner])
            path.write_bytes(lowered.to_executorch().buffer)
    return path


@pytest.mark.usefixtures("schedule")
def test_prefill_and_decode_share_their_caches(generator: Path) -> None:
    eager = decoder()
    with Program(generator) as program:
        prefill = program.method("prefill")
        decode = program.method("decode")
        tokens = list(PROMPT)
        method, inputs = prefill, step(tokens, 0)
        for _ in range(NEW_TOKENS):
            with torch.no_grad():
                expected = eager(*inputs)
            (found,) = method(*inputs)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            tokens.append(int(expected[0, -1].argmax()))
            method = (prefill, decode)[len(tokens) % 2]  # both take one token
            inputs = step(tokens[-1:], len(tokens) - 1)


def test_a_second_program_starts_with_empty_caches(generator: Path) -> None:
    later = step([7], 5)
    with Program(generator) as used, Program(generator) as fresh:
        method, other = used.method("decode"), fresh.method("decode")
        first = method(*step([3], 0))[0].clone()
        assert not torch.equal(method(*later)[0], other(*later)[0])
        torch.testing.assert_close(fresh.method("decode")(*step([3], 0))[0], first)


def test_wrong_inputs_are_refused_and_nothing_is_lost(generator: Path) -> None:
    with Program(generator) as program:
        prefill = program.method("prefill")
        with pytest.raises(ProgramError):
            prefill(*step(list(range(17)), 0))
        with pytest.raises(ProgramError):
            prefill(torch.zeros(1, 3), torch.arange(3))
        with torch.no_grad():
            expected = decoder()(*step(PROMPT, 0))
        torch.testing.assert_close(prefill(*step(PROMPT, 0))[0], expected, rtol=1e-4, atol=1e-4)


def test_without_metal_there_is_a_reason(
    mps_programs: Callable[..., Path], run_python: Callable[..., str]
) -> None:
    script = """
    import sys
    from aoti_plugins.runtime import Program
    try:
        Program(sys.argv[1])(None)
    except Exception as error:
        print(type(error).__name__, error)
    """
    output = run_python(script, mps_programs("mlp", "host"), AOTI_PLUGINS_METAL="")
    assert output.startswith("ProgramError")
    assert "Metal" in output


def test_a_program_for_macs_says_so_elsewhere(mps_programs: Callable[..., Path]) -> None:
    with Program(mps_programs("mlp")) as program, pytest.raises(ProgramError) as caught:
        program(torch.zeros(4, 64))
    assert "macos-arm64" in str(caught.value)
    assert "no code for this machine" in str(caught.value)


class _Int64(nn.Module):
    """Reductions over sizes that are no multiple of a SIMD group."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.amax(-1), x.amin(-1), x.prod(-1), x.sum(-1), x.argmax(-1)


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("inactive", ["", "0"])
def test_wide_integers(inactive: str, wide_integers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in lanes that are not active: poison, or zeros as on Apple's GPUs."""
    if inactive:
        monkeypatch.setenv("METAL_HOST_INACTIVE", inactive)
    x = -torch.arange(1, 5 * 70 + 1).reshape(5, 70) % 11 - 11
    with Program(wide_integers) as program:
        found = program(x)
    for one, expected in zip(found, _Int64()(x), strict=True):
        torch.testing.assert_close(one, expected, rtol=0, atol=0)


@pytest.fixture(scope="module")
def wide_integers(shared_dir: Path) -> Path:
    path = shared_dir / "wide-integers.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            inputs = (torch.zeros(5, 70, dtype=torch.int64),)
            lowered = lower(_Int64(), inputs, partitioner=MpsPartitioner(target="host"))
            path.write_bytes(lowered.buffer)
    return path
