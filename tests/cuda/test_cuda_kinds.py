"""What a program can contain, lowered for a GPU that is not here: delegated, or refused by name."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import size_cases
import torch
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from support import lower
from torch import nn
from torch.export import Dim, export
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    PerGroup,
    quantize_,
)

from aoti_plugins import CudaPartitioner
from aoti_plugins.errors import LoweringError
from aoti_plugins.payload import ConstantKind, Payload, decode


class Lowered:
    """What is in a program, by method: ops outside of delegates, and payloads."""

    def __init__(self, programs: Any, check_ir: bool = True, **options: Any) -> None:
        edge = to_edge_transform_and_lower(
            programs,
            partitioner=[CudaPartitioner(target="h100", **options)],
            compile_config=EdgeCompileConfig(_check_ir_validity=check_ir),
        )
        self.program = edge.to_executorch()
        plans = self.program.executorch_program.execution_plan
        data = self.program.executorch_program.backend_delegate_data
        self.outside = {
            plan.name: [f"{op.name}.{op.overload}" for op in plan.operators] for plan in plans
        }
        self.payloads: dict[str, list[Payload]] = {
            plan.name: [decode(bytes(data[one.processed.index].data)) for one in plan.delegates]
            for plan in plans
        }


def mlp() -> nn.Module:
    """Two linear layers of seeded weights."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()


def test_dynamic_shapes() -> None:
    dims = ({0: Dim("batch", min=1, max=64)},)
    lowered = Lowered(export(mlp(), (torch.randn(4, 16),), dynamic_shapes=dims))
    assert lowered.outside == {"forward": []}
    (payload,) = lowered.payloads["forward"]
    assert payload.inputs[0].dims == ((1, 64), (16, 16))
    assert payload.outputs[0].dims == ((1, 64), (4, 4))


def test_two_methods_share_their_weights() -> None:
    model = mlp()
    scores = nn.Sequential(model, nn.Softmax(-1))
    programs = {
        "logits": export(model, (torch.randn(4, 16),)),
        "scores": export(scores, (torch.randn(2, 16),)),
    }
    lowered = Lowered(programs)
    assert lowered.outside == {"logits": [], "scores": []}
    (first,), (second,) = lowered.payloads["logits"], lowered.payloads["scores"]
    assert {s.key for s in first.storages} == {s.key for s in second.storages}
    assert len(first.storages) == 3  # the second bias is a small constant in the code


class Branches(nn.Module):
    """Control flow on a value that is computed, between a state and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(16))
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add to the state, then take one of two ways."""
        self.total.add_(x)
        return torch.cond(
            self.total.sum() > 0,
            lambda y: torch.relu(self.layer(y)),
            lambda y: y * 2,
            (x,),
        )


def test_state_and_control_flow() -> None:
    lowered = Lowered(export(Branches(), (torch.randn(16),)))
    assert lowered.outside == {"forward": []}
    # before the branch, and one in each
    assert len(lowered.payloads["forward"]) == 3
    constants = [(c.fqn, c.kind) for p in lowered.payloads["forward"] for c in p.constants]
    assert constants == [("total", ConstantKind.MUTABLE_BUFFER)]


class RandomOps(nn.Module):
    """Ops whose generated kernels draw from seeds."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Numbers of several distributions."""
        return (
            torch.nn.functional.dropout(x, 0.5, True),
            x + torch.rand_like(x),
            torch.randn(4, 5) * x,
            torch.randint(0, 9, (4,)),
            torch.multinomial(x.abs(), 3, True),
        )


def test_random_ops_are_delegated() -> None:
    lowered = Lowered(export(RandomOps(), (torch.randn(4, 5),)), check_ir=False)
    assert lowered.outside == {"forward": []}
    (payload,) = lowered.payloads["forward"]
    assert "aoti_torch_cuda_randint_low_out" in payload.targets[0].symbols


class Counted(nn.Module):
    """Sizes that the data decides, of results and on the way to them."""

    def forward(
        self, x: torch.Tensor, repeats: torch.Tensor, count: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Choose by truth values, repeat, and take as many as an input says."""
        n = count.item()
        torch._check(n >= 1)
        torch._check(n <= 64)
        mask = x > 0
        chosen = x[mask]
        repeated = torch.repeat_interleave(x, repeats, 0)
        return (
            torch.nonzero(mask),
            chosen * 2,
            torch.masked_select(x, x < 0.5) + 1,
            chosen[chosen > 1].sum(),
            repeated.mean(0),
            x[mask.any(1)],
            torch.arange(n) * x[0, 0],
        )


def test_data_decides_sizes() -> None:
    lowered = Lowered(
        export(Counted(), (torch.randn(64, 40), torch.ones(64).long(), torch.tensor(5)))
    )
    assert lowered.outside == {"forward": []}
    (payload,) = lowered.payloads["forward"]
    assert "aoti_torch_item_int64" in payload.targets[0].symbols
    assert not [name for name in payload.targets[0].symbols if name.startswith(KERNELS)]
    # In which order a partition returns its results is PyTorch's choice.
    assert sorted(value.dims for value in payload.outputs) == [
        (),
        ((0, 64), (40, 40)),
        ((0, 2560),),
        ((0, 2560),),
        ((0, 2560), (2, 2)),
        ((1, 64),),
        ((40, 40),),
    ]


KERNELS = ("aoti_torch_cuda_nonzero", "aoti_torch_cuda_masked", "aoti_torch_cuda_repeat")


class Middle(nn.Module):
    """An op without a kernel among others."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """An exponential of a matrix, and more."""
        y = self.layer(x)
        exponential = torch.linalg.matrix_exp(y @ y.T)
        return torch.relu(y) + 1, exponential


def test_an_op_without_a_kernel_stays_outside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        program = export(Middle(), (torch.randn(4, 8),))
        lowered = Lowered(program, check_ir=False, allow_missing_kernels=True)
    assert lowered.outside == {"forward": ["aten::linalg_matrix_exp.out"]}
    assert lowered.payloads["forward"]
    assert "it has no C shim; libtorch would run aten::linalg_matrix_exp" in caplog.text
    assert "torch.linalg.matrix_exp(y @ y.T)" in caplog.text


class AllDtypes(nn.Module):
    """Sums, products and casts of every dtype that SlimTensor carries and Inductor generates."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One result per dtype."""
        results = []
        for x in tensors:
            if x.dtype == torch.bool:
                results.append(x ^ ~x)
            elif x.dtype.itemsize == 1 and x.dtype.is_floating_point:
                results.append((x.float() * 2).to(x.dtype))
            else:
                results.append(x * x + x)
        return tuple(results)


def test_dtypes() -> None:
    dtypes = (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        *(torch.float8_e4m3fn, torch.float8_e5m2),
    )
    inputs = tuple((torch.randn(4, 8) * 3).to(dtype) for dtype in dtypes)
    lowered = Lowered(export(AllDtypes(), inputs), check_ir=False)
    assert lowered.outside == {"forward": []}
    (payload,) = lowered.payloads["forward"]
    assert len({value.dtype for value in payload.outputs}) == len(dtypes)


QUANTIZED: dict[str, Callable[[], Any]] = {
    "int8": Int8WeightOnlyConfig,
    "int8 in groups": lambda: Int8WeightOnlyConfig(granularity=PerGroup(32)),
    "int8 of both": Int8DynamicActivationInt8WeightConfig,
    "int8, weights of fewer bits": Int8DynamicActivationIntxWeightConfig,
    "int4": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4),
    "float8": Float8WeightOnlyConfig,
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_weights(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    model = model.to(torch.bfloat16).eval()
    quantize_(model, QUANTIZED[name]())
    exported = export(model, (torch.randn(4, 64, dtype=torch.bfloat16),))
    lowered = Lowered(exported, check_ir=False)
    assert lowered.outside == {"forward": []}
    (payload,) = lowered.payloads["forward"]
    weights = sum(storage.nbytes for storage in payload.storages)
    assert weights < 64 * 64 + 64 * 32 + 2000  # a byte per weight, and scales


class Packed(nn.Module):
    """A product with weights that are packed as NVIDIA GPUs take them: two to a byte."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(8, 1, 32, 4, dtype=torch.int32))
        self.register_buffer("scales", torch.ones(4, 64, 2, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product."""
        return torch.ops.aten._weight_int4pack_mm(x, self.weight, 32, self.scales) + 1


def test_packed_weights_stay_packed() -> None:
    lowered = Lowered(export(Packed(), (torch.randn(16, 128, dtype=torch.bfloat16),)))
    assert lowered.outside == {"forward": []}
    (payload,) = lowered.payloads["forward"]
    assert sum(storage.nbytes for storage in payload.storages) == 8 * 32 * 4 * 4 + 4 * 64 * 2 * 2


def test_convolutions_are_expected_as_the_runtime_gives_them(tmp_path: Path) -> None:
    """The runtime's kernel gives channels last where its input is; the code must read it so."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3)).eval()
    image = torch.randn(2, 3, 12, 12).to(memory_format=torch.channels_last)
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    exported = export(model, (image,))
    to_edge_transform_and_lower(exported, partitioner=[partitioner])
    wrapper = (tmp_path / "forward_0_h100" / "wrapper.cpp").read_text()
    # The channel of an element, for its bias: the last dim, of images with channels last.
    assert re.findall(r"x0 = \(?xindex (.*?)\)?\n", wrapper) == ["% 16", "% 8"]


def test_memory_is_planned_on_the_named_gpu() -> None:
    stays = PropagateDeviceConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)
    for config, ops in (
        (ExecutorchBackendConfig(), ["et_copy::_h2d_copy", "et_copy::_d2h_copy"]),
        (ExecutorchBackendConfig(propagate_device_config=stays), []),
    ):
        partitioner = CudaPartitioner(target="h100", target_device="cuda:1")
        model, inputs = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), (torch.randn(2, 4),)
        lowered = lower(model, inputs, partitioner=partitioner, config=config)
        (plan,) = lowered.executorch_program.execution_plan
        assert [op.name for op in plan.operators] == ops
        (planned,) = plan.non_const_buffer_device
        assert (planned.device_type.name, planned.device_index) == ("CUDA", 1)
        assert [s.value for s in plan.delegates[0].compile_specs if s.key == "target_device"] == [
            b"cuda:1"
        ]


@pytest.mark.parametrize("device", ["cuda:x", "cuda:-1", "cpu", "mps:0", "CUDA:0"])
def test_devices_that_are_no_gpu(device: str) -> None:
    with pytest.raises(LoweringError, match="target_device"):
        CudaPartitioner(target_device=device)


def test_sizes_that_may_be_0_are_delegated_whole() -> None:
    lowered = Lowered(size_cases.exported(size_cases.TABLES["empty_too"]))
    assert lowered.outside == {"forward": []}
