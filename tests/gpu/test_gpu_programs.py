"""Programs run on a GPU: with tensors of the host and of the GPU, equal to eager PyTorch there."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower

from aoti_plugins import CudaPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program, set_options

pytestmark = pytest.mark.gpu

Programs = Callable[[str, str], Path]
Models = dict[str, Callable[[], Any]]
CUDA = "AotiCudaBackend"

NAMES = ["mlp", "cnn", "transformer", "transformer_bf16", "lstm", "decoder"]


def on_gpu(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The same tensors on the GPU."""
    return tuple(tensor.cuda() for tensor in inputs)


def eager(models: Models, name: str) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Inputs, on the host, and what PyTorch gives for them on the GPU."""
    model, inputs = models[name]()
    with torch.no_grad():
        return inputs, model.cuda()(*on_gpu(inputs))


def check(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal within what the dtype can hold.

    Eager PyTorch rounds after every op and fused kernels do not, so of half precision the whole is
    compared, not each element.
    """
    if expected.dtype == torch.float32:
        torch.testing.assert_close(found.cpu(), expected.cpu(), rtol=1e-4, atol=1e-4)
        return
    difference = (found.cpu().double() - expected.cpu().double()).norm()
    assert difference <= 2e-2 * expected.double().norm()


@pytest.mark.parametrize("way", ["measured", "estimated"])
@pytest.mark.parametrize("name", NAMES)
def test_equals_eager(name: str, way: str, gpu_programs: Programs, example_models: Models) -> None:
    inputs, expected = eager(example_models, name)
    with Program(gpu_programs(name, way)) as program:
        (from_host,) = program(*inputs)
        assert from_host.device.type == "cpu"
        check(from_host, expected)
    with Program(gpu_programs(name, way)) as program:
        (from_gpu,) = program(*on_gpu(inputs))
        assert from_gpu.device.type == "cuda"
        check(from_gpu, expected)


def test_a_program_in_cpp(cpp_runner: Path, gpu_programs: Programs, example_models: Models) -> None:
    model, inputs = example_models["cnn"]()
    expected = model(*map(torch.ones_like, inputs)).sum().item()
    command = [str(cpp_runner), str(gpu_programs("cnn", "estimated"))]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    (printed,) = re.findall(r"sum (\S+)", found.stdout)
    assert float(printed) == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_graphs_equal_eager(name: str, gpu_programs: Programs, example_models: Models) -> None:
    inputs, expected = eager(example_models, name)
    same = on_gpu(inputs)
    with Program(gpu_programs(name, "graphs")) as program, program.method() as method:
        for _ in range(12):
            (found,) = method(*same, copy=False)  # the same memory: captured for it
            assert found.device.type == "cuda"
            check(found, expected)
            other = on_gpu(inputs)
            kept = [method(*other)[0] for _ in range(4)]  # memory that keeps changing
            for one in kept:
                check(one, expected)
            check(method(*inputs)[0], expected)
            assert len({one.data_ptr() for one in kept}) == 4


def test_graphs_keep_state(gpu_programs: Programs) -> None:
    x = torch.ones(3, device="cuda")
    with Program(gpu_programs("counter", "graphs")) as program, program.method() as method:
        found = [method(x, copy=False)[0].tolist() for _ in range(8)]
    assert found == [[1.0 + n] * 3 for n in range(1, 9)]


def test_host_and_gpu_in_turns(gpu_programs: Programs, example_models: Models) -> None:
    inputs, expected = eager(example_models, "mlp")
    with Program(gpu_programs("mlp", "measured")) as program:
        for _ in range(3):
            check(program(*inputs)[0], expected)
            check(program(*on_gpu(inputs))[0], expected)


def test_results_are_memory_of_their_own(gpu_programs: Programs, example_models: Models) -> None:
    inputs, expected = eager(example_models, "mlp")
    with Program(gpu_programs("mlp", "measured")) as program:
        (first,) = program(*on_gpu(inputs))
        program(*(tensor * 2 for tensor in on_gpu(inputs)))
    check(first, expected)


def test_behind_the_callers_stream(gpu_programs: Programs, example_models: Models) -> None:
    inputs, expected = eager(example_models, "mlp")
    with Program(gpu_programs("mlp", "measured")) as program:
        program(*on_gpu(inputs))
        with torch.cuda.stream(torch.cuda.Stream()):
            slow = torch.randn(4096, 4096, device="cuda")
            for _ in range(20):
                slow = slow @ slow * 0
            late = tuple(tensor.cuda() + slow[0, 0] for tensor in inputs)
            (found,) = program(*late)
            check(found + 0, expected)


def test_arrays_of_cupy(gpu_programs: Programs, example_models: Models) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    inputs, expected = eager(example_models, "mlp")
    (x,) = on_gpu(inputs)
    with Program(gpu_programs("mlp", "measured")) as program:
        (found,) = program(cupy.from_dlpack(x))
        assert found.is_cuda
        check(found, expected)
        with cupy.cuda.Stream(non_blocking=True):
            slow = cupy.random.standard_normal((4096, 4096), dtype=cupy.float32)
            for _ in range(20):
                slow = (slow @ slow) * 0
            late = cupy.from_dlpack(x) + slow[0, 0]
            (found,) = program(late)  # behind the products
            late.fill(0)  # on a stream that waits for nobody
            check(torch.from_dlpack(cupy.from_dlpack(found) + 0), expected)


def test_arrays_of_jax(
    gpu_programs: Programs, example_models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it would take most of the GPU
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    torch.cuda.set_device(0)  # JAX leaves the last one current
    inputs, expected = eager(example_models, "mlp")
    (x,) = on_gpu(inputs)
    with Program(gpu_programs("mlp", "measured")) as program:
        (found,) = program(jax.dlpack.from_dlpack(x) + 0.0)
        check(found, expected)
        check(torch.from_dlpack(jax.dlpack.from_dlpack(found) + 0.0), expected)


def test_threads_with_methods_of_their_own(gpu_programs: Programs, example_models: Models) -> None:
    inputs, expected = eager(example_models, "mlp")
    failures: list[BaseException] = []
    with Program(gpu_programs("mlp", "measured")) as program:

        def work() -> None:
            try:
                with program.method() as method:
                    for _ in range(50):
                        check(method(*inputs)[0], expected)
            except BaseException as error:  # told to the main thread, which fails
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


@pytest.mark.alone
def test_memory_comes_back(gpu_programs: Programs, example_models: Models) -> None:
    inputs, _ = eager(example_models, "transformer")
    path = gpu_programs("transformer", "measured")

    def cycle() -> int:
        with Program(path) as program:
            program(*inputs)
        torch.cuda.synchronize()
        return int(torch.cuda.mem_get_info()[0])

    cycle()
    free = cycle()
    for _ in range(30):
        last = cycle()
    assert free - last < 4 << 20


def test_wrong_inputs_on_the_gpu(gpu_programs: Programs, example_models: Models) -> None:
    inputs, expected = eager(example_models, "mlp")
    (x,) = on_gpu(inputs)
    with Program(gpu_programs("mlp", "measured")) as program:
        with pytest.raises(ProgramError, match="expected float32"):
            program(x.half())
        with pytest.raises(ProgramError, match="dimensions"):
            program(x[0])
        with pytest.raises(ProgramError, match="make it contiguous"):
            program(x.t().contiguous().t())
        check(program(x)[0], expected)


def test_a_program_for_the_cpu_refuses_memory_of_a_gpu(
    lowered_programs: Callable[[str], Path], example_models: Models
) -> None:
    _, inputs = example_models["mlp"]()
    with Program(lowered_programs("mlp")) as program, pytest.raises(ProgramError, match="cpu"):
        program(*on_gpu(inputs))


def test_a_mixed_program_refuses_memory_of_a_gpu(gpu_programs: Programs) -> None:
    n, x = torch.tensor(5), torch.ones(3)
    with Program(gpu_programs("choice", "measured")) as program:
        with pytest.raises(ProgramError, match="expected the cpu: method 'forward' is not one"):
            program(n, x.cuda())
        check(program(n, x)[0], x.sin())
        check(program(torch.tensor(1), x)[0], x.cos())


class Draws(torch.nn.Module):
    """Noise, and a dropout."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both of the size of ``x``."""
        return torch.rand_like(x), torch.nn.functional.dropout(x, 0.5, True)


@pytest.mark.parametrize("graphs", [False, True])
def test_a_seed_repeats_the_numbers(graphs: bool) -> None:
    x = torch.ones(256, 256)
    options = {CUDA: {"cuda_graphs": graphs}}
    with Program(bytes(lower(Draws(), (x,), partitioner=CudaPartitioner()).buffer)) as program:
        method = program.method(options=options)

        def draw(seed: int) -> list[list[torch.Tensor]]:
            set_options(CUDA, seed=seed)
            return [[one.clone() for one in method(x.cuda())] for _ in range(4)]

        first, again, other = draw(1), draw(1), draw(2)
    for one, same in zip(first, again, strict=True):
        assert all(map(torch.equal, one, same))
    noises = [noise for noise, _ in first + other]
    assert not any(map(torch.equal, noises, noises[1:]))
    assert all(abs(noise.mean().item() - 0.5) < 0.02 for noise in noises)
    assert all(set(dropped.unique().tolist()) == {0.0, 2.0} for _, dropped in first)
