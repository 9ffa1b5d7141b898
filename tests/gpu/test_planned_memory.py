"""Programs for which ExecuTorch plans memory on a GPU that the partitioner names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from support import CdistOutside, lower

from aoti_plugins import CudaPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.gpu

Models = dict[str, Callable[[], Any]]

STAYS = {
    "propagate_device_config": PropagateDeviceConfig(
        skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
    ),
    "memory_planning_pass": MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
}
COMES_BACK_LATER = {
    "propagate_device_config": PropagateDeviceConfig(skip_d2h_for_method_outputs=True)
}


class Twice(torch.nn.Module):
    """Work for the delegate before and after an op that stays outside."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Distances between rows, twice."""
        for _ in range(2):
            x = torch.cdist(torch.tanh(x @ x * 0.1), x)
        return x


def expected_of(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """What eager PyTorch gives on the CPU."""
    with torch.no_grad():
        return model.cpu()(*inputs)


def lowered(model: torch.nn.Module, inputs: Any, device: str, **config: Any) -> bytes:
    """A program whose memory is planned on a GPU."""
    partitioner = CudaPartitioner(target_device=device)
    settings = ExecutorchBackendConfig(**config)
    return bytes(lower(model, inputs, partitioner=partitioner, config=settings).buffer)


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_inputs_and_outputs_are_copied(name: str, example_models: Models) -> None:
    model, inputs = example_models[name]()
    expected = expected_of(model, inputs)
    with Program(lowered(model, inputs, "cuda:0")) as program, program.method() as method:
        for _ in range(3):
            (found,) = method(*inputs)
            assert found.device.type == "cpu"
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_around_an_op_outside() -> None:
    x = torch.randn(6, 6)
    with get_manager().registered(CdistOutside(), "cdist-outside"):
        buffer = lowered(Twice(), (x,), "cuda:0")
    with Program(buffer) as program:
        torch.testing.assert_close(program(x)[0], Twice()(x), rtol=1e-3, atol=1e-3)


def test_inputs_and_outputs_stay_on_the_gpu(example_models: Models) -> None:
    model, inputs = example_models["mlp"]()
    expected = expected_of(model, inputs)
    program_bytes = lowered(model, inputs, "cuda", **STAYS)
    with Program(program_bytes) as program, program.method() as method:
        for _ in range(3):
            (found,) = method(*(tensor.cuda() for tensor in inputs))
            assert found.device.type == "cuda"
            torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-3)
        with pytest.raises(ProgramError, match="expected memory of a GPU"):
            method(*inputs)


def test_outputs_stay_on_the_gpu(example_models: Models) -> None:
    model, inputs = example_models["mlp"]()
    expected = expected_of(model, inputs)
    program_bytes = lowered(model, inputs, "cuda", **COMES_BACK_LATER)
    with Program(program_bytes) as program, program.method() as method:
        kept = [method(*inputs)[0] for _ in range(3)]
        for found in kept:
            assert found.device.type == "cuda"
            torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-3)
        assert len({found.data_ptr() for found in kept}) == 3


@pytest.mark.alone
@pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="torch.cuda.device_count() is below 2: needs two GPUs"
)
def test_the_second_gpu(example_models: Models) -> None:
    model, inputs = example_models["cnn"]()
    expected = expected_of(model, inputs)
    first = torch.cuda.mem_get_info(0)[0]
    with Program(lowered(model, inputs, "cuda:1")) as program, program.method() as method:
        for _ in range(3):
            torch.testing.assert_close(method(*inputs)[0], expected, rtol=1e-3, atol=1e-3)
        assert torch.cuda.mem_get_info(0)[0] == first
