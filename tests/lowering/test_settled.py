"""Programs that are not traced before ExecuTorch traces them, since nothing would change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from of_function import OfFunction
from torch import nn
from torch.export import ExportedProgram, export
from torch.nn import functional

from aoti_plugins import CpuPartitioner, CudaPartitioner
from aoti_plugins.lowering import memory_formats
from aoti_plugins.lowering.settled import PARTS, WRITES, is_settled

ATEN = torch.ops.aten
PLAIN = torch.arange(24.0).reshape(4, 6)
TRANSPOSED = PLAIN.t()


class Decoder(nn.Module):
    """A layer of attention with a cache, as language models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.projections, self.out = nn.Linear(16, 48, bias=False), nn.Linear(16, 16)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("keys", torch.zeros(1, 2, 32, 8))
        self.register_buffer("values", torch.zeros(1, 2, 32, 8))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        rows = self.projections(x).view(1, -1, 3, 2, 8).unbind(2)
        q, k, v = (one.transpose(1, 2) for one in rows)
        low, high = q.chunk(2, -1)
        q = q * 2 + torch.cat([-high, low], -1).to(q.dtype)
        self.keys.index_copy_(2, places, k)
        self.values[:, :, places] = v
        mask = torch.arange(32) <= places[:, None]
        found = functional.scaled_dot_product_attention(q, self.keys, self.values, mask)
        return self.dropout(self.out(found.transpose(1, 2).reshape(1, -1, 16)))


def decoder() -> ExportedProgram:
    return export(Decoder().eval(), (torch.randn(1, 5, 16), torch.arange(5)))


def settled(program: ExportedProgram, decomposed: Iterable[Any] = ()) -> bool:
    return is_settled([program.graph_module], list(decomposed))


def traced(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram]:
    """The programs that are traced from here on."""
    found = []
    original = ExportedProgram.run_decompositions

    def run(self: ExportedProgram, *args: Any, **kwargs: Any) -> ExportedProgram:
        found.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", run)
    return found


@pytest.mark.parametrize(
    "partitioner", [CpuPartitioner(), CudaPartitioner(target="h100")], ids=["cpu", "cuda"]
)
def test_a_transformer_is_not_traced(partitioner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = traced(monkeypatch)
    program = partitioner.transform_for_pre_decomposition(decoder())
    assert not programs
    assert any(node.target is ATEN.index_copy_.default for node in program.graph.nodes)


def test_a_transformer_with_a_transposed_copy_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Copies(Decoder):
        def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            return super().forward(x, places).transpose(1, 2).clone()

    program = export(Copies().eval(), (torch.randn(1, 5, 16), torch.arange(5)))
    programs = traced(monkeypatch)
    found = CpuPartitioner().transform_for_pre_decomposition(program)
    assert len(programs) == 2
    copies = [node for node in found.graph.nodes if node.target is ATEN.clone.default]
    assert copies[-1].kwargs == {"memory_format": torch.contiguous_format}


KEPT: dict[str, Callable[..., Any]] = {
    "nothing is copied": lambda x, y: (x.sin() @ y, x[1:].exp()),
    "copies of what has a format": lambda x, y: (y.clone(), y.half(), y.to("cpu", torch.int32)),
    "casts to what it is": lambda x, y: (x.float() + 1, ATEN.to.other(x, y).sin(), x.to("cpu") * 2),
    "one dtype": lambda x, y: (x + y.T, x * 2.5, x / x, x - 1, torch.minimum(x, y.mT)),
    "two dtypes, formats": lambda x, y: (y + y.half(), y.int() * 0.5, x + y.T.contiguous().half()),
    "a named layout": lambda x, y: (x.contiguous(), x.reshape(-1), x.flatten(), x.ravel()),
    "whole composites": lambda x, y: (functional.linear(x, x), torch.matmul(x, y), x.softmax(-1)),
    "views": lambda x, y: (x.chunk(2), x.narrow(0, 1, 2) + 1, x.expand_as(x[None]), x.unsqueeze(0)),
    "constants": lambda x, y: x * torch.tensor([1.0, 2.0, 3.0, 4.0]),
    "dropout that is off": lambda x, y: (functional.dropout(y, 0.5, False), x + 1),
}


@pytest.mark.parametrize("function", KEPT.values(), ids=KEPT)
def test_a_trace_would_change_nothing(function: Callable[..., Any]) -> None:
    program = export(OfFunction(function), (TRANSPOSED, PLAIN))
    table = memory_formats.row_major_copies([program.graph_module])
    assert table
    assert settled(program)
    after = program.run_decompositions(table).run_decompositions({})
    twice = program.run_decompositions({}).run_decompositions({})  # since each may count names on
    assert str(after.graph) == str(twice.graph)


def copied(x: torch.Tensor) -> torch.Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    return x.add_(1)


CHANGED: dict[str, Callable[..., Any]] = {
    "clone": lambda x, y: x.clone(),
    "of a view": lambda x, y: y.permute(1, 0).clone(),
    "of what is computed": lambda x, y: x.exp().clone(),
    "dtype": lambda x, y: x.half(),
    "dtype and device": lambda x, y: x.to("cpu", torch.float64),
    "as another": lambda x, y: ATEN.to.other(x, y.half()),
    "same dtype, copied": lambda x, y: x.to(torch.float32, copy=True),
    "number of another dtype": lambda x, y: x.int() + 0.5,
    "two dtypes": lambda x, y: x.T.contiguous().half().T * x,
    "integers divided": lambda x, y: y.int().T / 2,
    "quotient": lambda x, y: torch.div(y.int().T, y.int().T),
    "dropout that is off": lambda x, y: functional.dropout(x, 0.5, False),
    "dropout": lambda x, y: functional.dropout(x, 0.5, True),
    "not listed": lambda x, y: (x, y.adjoint()),
    "batch norm": lambda x, y: functional.batch_norm(x, y[0, :4], y[1, :4]),
    "written": lambda x, y: (x, copied(y)),
    "written as part": lambda x, y: (x, y.clone()[1:].index_copy_(0, torch.tensor([1]), y[:1])),
    "branches": lambda x, y: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
}


@pytest.mark.parametrize("function", CHANGED.values(), ids=CHANGED)
def test_a_trace_would_change_something_or_is_not_known(function: Callable[..., Any]) -> None:
    assert not settled(export(OfFunction(function), (TRANSPOSED, PLAIN)))


def test_what_is_decomposed_is_not_settled() -> None:
    program = decoder()
    assert settled(program)
    for op in (ATEN.linear.default, ATEN.cat.default, ATEN.index_copy.default):
        assert not settled(program, [op])
    assert not settled(program, [ATEN.split.Tensor])  # from chunk
    assert not settled(program, [ATEN._unsafe_view.default])  # from reshape
    assert settled(program, [ATEN.reshape.default])  # nobody is asked about it


CALLS: dict[Any, Callable[..., Any]] = {
    ATEN.broadcast_to.default: lambda x, y: x.broadcast_to(2, 6, 4),
    ATEN.chunk.default: lambda x, y: x.chunk(2),
    ATEN.contiguous.default: lambda x, y: (x.contiguous(), y.contiguous()),
    ATEN.expand_as.default: lambda x, y: x.expand_as(x[None]),
    ATEN.flatten.using_ints: lambda x, y: (x.flatten(), y.flatten(), y.flatten(0, 0)),
    ATEN.mT.default: lambda x, y: x.mT,
    ATEN.movedim.int: lambda x, y: x.movedim(0, 1),
    ATEN.movedim.intlist: lambda x, y: x.movedim((0, 1), (1, 0)),
    ATEN.narrow.default: lambda x, y: x.narrow(1, 1, 2),
    ATEN.numpy_T.default: lambda x, y: x.T,
    ATEN.ravel.default: lambda x, y: (x.ravel(), y.ravel()),
    ATEN.reshape.default: lambda x, y: (x.reshape(-1), y.reshape(-1), y.reshape(4, 6)),
    ATEN.reshape_as.default: lambda x, y: (x.reshape_as(y), y.reshape_as(x)),
    ATEN.split.sizes: lambda x, y: ATEN.split.sizes(x, [2, 4]),
    ATEN.swapaxes.default: lambda x, y: x.swapaxes(0, 1),
    ATEN.swapdims.default: lambda x, y: x.swapdims(0, 1),
    ATEN.to.device: lambda x, y: x.to("cpu", torch.float16),
    ATEN.to.dtype: lambda x, y: x.half(),
    ATEN.to.dtype_layout: lambda x, y: x.to("cpu"),
    ATEN.to.other: lambda x, y: ATEN.to.other(x, y.half()),
    ATEN.unflatten.int: lambda x, y: (x.unflatten(0, (2, 3)), y.unflatten(0, (2, 2))),
    ATEN.view_as.default: lambda x, y: y.view_as(y),
}


@pytest.mark.parametrize("op", PARTS, ids=str)
def test_parts_of_what_is_taken_apart(op: Any) -> None:
    program = export(OfFunction(CALLS[op]), (TRANSPOSED, PLAIN))
    assert op in {node.target for node in program.graph.nodes}
    parts = [n for n in program.run_decompositions({}).graph.nodes if n.op == "call_function"]
    found = {node.target for node in parts if isinstance(node.target, torch._ops.OpOverload)}
    assert found - {ATEN._assert_tensor_metadata.default} <= {*PARTS[op]}
    clones = [node for node in parts if node.target is ATEN.clone.default]
    assert all(node.kwargs == {"memory_format": torch.contiguous_format} for node in clones)


def asked(op: Any, names: list[str]) -> Callable[..., Any]:
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        names.append(str(op))
        return NotImplemented

    return decomposition


def test_no_table_is_asked_about_what_is_taken_apart() -> None:
    names: list[str] = []
    table = {op: asked(op, names) for op in (*PARTS, ATEN.dropout.default)}
    for function in (*CALLS.values(), KEPT["dropout that is off"]):
        export(OfFunction(function), (TRANSPOSED, PLAIN)).run_decompositions(table)
    assert not names


@pytest.mark.parametrize("op", WRITES.values(), ids=str)
def test_results_of_writes_are_row_major(op: Any) -> None:
    def compute(x: torch.Tensor, rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        if op is ATEN.index_copy.default:
            return torch.index_copy(x, 0, index, rows)
        return torch.index_put(x, [index], rows)

    inputs = torch.zeros(9, 4, 5), torch.randn(5, 4, 3).transpose(0, 2), torch.tensor([1, 5, 2])
    nodes = export(OfFunction(compute), inputs).graph.nodes
    found = [node.meta["val"] for node in nodes if node.target is op]
    assert [x.is_contiguous() for x in found] == [True]
