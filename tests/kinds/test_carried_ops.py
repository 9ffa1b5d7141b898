"""Ops that ExecuTorch's check of edge programs refuses, in lowerings with its default settings."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.verification.verifier import SpecViolationError
from torch import nn
from torch.export import ExportedProgram, export
from torch.fx import Node

from aoti_plugins import CpuPartitioner
from aoti_plugins.hooks import hookimpl
from aoti_plugins.lowering import carried_ops
from aoti_plugins.lowering import support as support_module
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program
from aoti_plugins.types import GraphPass


class Unknown(nn.Module):
    """Ops that are not core, none of which ExecuTorch decomposes, and dtypes that it leaves out."""

    def forward(self, x: torch.Tensor, volume: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs = torch.view_as_complex(x.view(4, 3, 2))
        grid = volume.mean(1)[..., None].expand(-1, -1, -1, -1, 3).tanh()
        return (
            torch.cumprod(x, 1) + 1,
            torch.cummax(x, 0).values,
            torch.addmv(x[:, 0], x, x[0]),
            torch.fft.fft(x).abs(),
            torch.view_as_real(torch.fft.ifftn(torch.fft.fft2(x) * 2)),
            torch.view_as_real(pairs * (pairs + pairs)),
            torch.nn.functional.grid_sample(volume, grid, align_corners=False),
            torch.nn.functional.adaptive_max_pool2d(volume[:, 0], 2),
            torch.searchsorted(x[0].sort().values, x[1]),
            (x.to(torch.float8_e5m2).to(torch.float32) * 2),
        )


class Branches(nn.Module):
    """Such an op in one of two branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda y: torch.cumprod(y, 1), lambda y: torch.relu(y) - 1, (x,)
        )


class Product(nn.Module):
    """A layer, and an op that is not core."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumprod(self.layer(x), 1)


def test_equal_to_eager(check: Callable[..., None]) -> None:
    check(Unknown(), torch.randn(4, 6), torch.randn(1, 2, 3, 4, 5), atol=1e-4, rtol=1e-4)
    for shift in (9, -9):
        check(Branches(), torch.randn(4, 6) + shift)


def test_what_the_check_takes_for_wrong(check: Callable[..., None]) -> None:
    """Two dtypes where ExecuTorch's own kernels take one, and lists of tensors without dims."""

    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        written = x[0].clone()
        written.unbind(0)[1].add_(1)
        mixed = [torch.where(x > 0, y.amax(), x), torch.where(x > 0, x, y)]
        return [*mixed, written, *y[0].unbind(0), torch.stack(x.unbind(1))]

    check(compute, torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64))


def test_numbers_beside_narrow_integers(check: Callable[..., None]) -> None:
    """ExecuTorch makes a tensor of int64 of a number, and then takes the two dtypes for wrong."""

    def compute(*given: torch.Tensor) -> list[torch.Tensor]:
        return [found for x in given for found in (x // 3, x + 3)]

    dtypes = (torch.int16, torch.int8, torch.uint8, torch.int32)
    check(compute, *(torch.arange(9, dtype=dtype) for dtype in dtypes))


def test_a_program_has_none_of_our_names(lower_whole: Callable[..., bytes]) -> None:
    program = lower_whole(Product(), (torch.randn(4, 6),))
    assert b"plugins_carried" not in program


@pytest.mark.parametrize(
    "partitioners",
    [
        lambda: [XnnpackPartitioner(), CpuPartitioner()],
        lambda: [CpuPartitioner(), XnnpackPartitioner()],
        lambda: [CpuPartitioner(), CpuPartitioner(target="x86_64-v1")],
    ],
    ids=["last", "first", "twice"],
)
def test_among_other_partitioners(partitioners: Callable[[], list[Any]]) -> None:
    model, x = Product().eval(), torch.randn(4, 6)
    edge = to_edge_transform_and_lower(export(model, (x,)), partitioner=partitioners())
    program = edge.to_executorch()
    assert program.executorch_program.execution_plan[0].operators == []
    with Program(bytes(program.buffer)) as loaded:
        torch.testing.assert_close(loaded(x)[0], model(x), rtol=1e-4, atol=1e-4)


def test_what_no_delegate_takes_keeps_its_name() -> None:
    class Eigenvalues(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x @ x.mT) + torch.cumprod(x, 1)

    exported = export(Eigenvalues(), (torch.randn(4, 4),))
    with pytest.raises(SpecViolationError, match=r"Operator torch\._ops\.aten\._linalg_eigh"):
        to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])


def test_what_stays_outside_after_all_gets_its_name_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = support_module.Support.refusal

    def refusal(support: support_module.Support, node: Node) -> support_module.Refusal | None:
        if isinstance(node.target, EdgeOpOverload) and "cumprod" in str(node.target):
            return support_module._refuse(node, "it is a test", "nothing")
        return original(support, node)

    monkeypatch.setattr(support_module.Support, "refusal", refusal)
    exported = export(Product(), (torch.randn(4, 6),))
    partitioner = CpuPartitioner(allow_missing_kernels=True)
    with (
        caplog.at_level(logging.WARNING, "aoti_plugins"),
        pytest.raises(SpecViolationError, match=r"Operator torch\._ops\.aten\.cumprod\.default"),
    ):
        to_edge_transform_and_lower(exported, partitioner=[partitioner])
    assert "aten.cumprod.default (node 'aten_cumprod_default'): it is a test" in caplog.text
    assert "plugins_carried" not in caplog.text


class Recorder:
    """A plugin that writes down which ops the first of all passes sees, and is asked about."""

    def __init__(self) -> None:
        self.ops: list[str] = []
        self.asked: list[str] = []

    @hookimpl
    def aoti_graph_passes(self, device: str) -> tuple[GraphPass, ...]:
        """One that comes before all others."""
        del device
        before = ("aoti_plugins.edge_to_aten",)
        return (GraphPass("test.record", self._record, before=before, handles=self._handles),)

    def _handles(self, node: Node) -> bool:
        self.asked.append(str(node.target))
        return False

    def _record(self, program: ExportedProgram) -> None:
        self.ops += [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def test_plugins_see_the_names_of_atens_ops() -> None:
    recorder = Recorder()
    with get_manager().registered(recorder, "recorder"):
        exported = export(Product(), (torch.randn(4, 6),))
        to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    for seen in (recorder.ops, recorder.asked):
        assert any("aten.cumprod.default" in op for op in seen)
        assert not any("plugins_carried" in op for op in seen)


def test_threads_carry_the_same_op() -> None:
    exported = export(Product(), (torch.randn(4, 6),))
    nodes = [
        next(n for n in copy.deepcopy(exported).graph.nodes if "cumprod" in str(n.target))
        for _ in range(8)
    ]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda node: carried_ops.carry([node]), nodes))
    assert len({node.target for node in nodes}) == 1
