"""State that programs keep between calls: whose it is, when it starts anew, who else sees it.

Methods of one program share it, under ExecuTorch's own runtime as well; two loads do not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from support import lower, needs_executorchs_extension
from torch import nn
from torch.export import export

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.payload import ConstantKind, decode
from aoti_plugins.runtime import Program

# ExecuTorch stores the first value of a buffer that it owns itself only when asked to.
pytestmark = pytest.mark.filterwarnings("ignore:Mutation on a buffer")


class Total(nn.Module):
    """Counts calls and adds up; the first values are not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("calls", torch.tensor(7))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.total.add_(x)
        self.calls.add_(1)
        return self.total * 2, self.calls + 0


class Look(Total):
    """Only reads what ``Total`` writes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.total + x, self.calls * 10


class Normalized(nn.Module):
    """A batch norm that learns its statistics as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) + self.norm.running_mean


class OtherTotal(nn.Module):
    """A buffer that has the name of another one and nothing else in common."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total.sum()


X = torch.tensor([0.5, -1.0, 4.0])


@pytest.fixture(scope="module")
def lowered() -> Any:
    programs = {
        "add": export(Total(), (X,)),
        "look": export(Look(), (X,)),
        "norm": export(Normalized().train(), (torch.randn(4, 3),)),
        "other": export(OtherTotal(), (torch.randn(2, 2),)),
        "own": export(Total(), (X,)),
    }
    # ExecuTorch itself has no batch norm in train mode.
    allowed = [torch.ops.aten._native_batch_norm_legit_functional.default]
    edge = to_edge_transform_and_lower(
        programs,
        partitioner={name: [CpuPartitioner(share_state=name != "own")] for name in programs},
        compile_config=EdgeCompileConfig(_core_aten_ops_exception_list=allowed),
    )
    return edge.to_executorch()


@pytest.fixture
def program(lowered: Any) -> Iterator[Program]:
    with Program(bytes(lowered.buffer)) as loaded:
        yield loaded


def test_a_method_keeps_its_values_and_starts_anew(program: Program) -> None:
    for _ in range(2):  # a method that is loaded again has the first values
        method, eager = program.method("add"), Total()
        for factor in (1, -2, 3):
            torch.testing.assert_close(method(X * factor), eager(X * factor))


def test_a_program_loaded_twice_has_two_states(lowered: Any, program: Program) -> None:
    program.method("add")(X)
    with Program(bytes(lowered.buffer)) as other:
        torch.testing.assert_close(other.method("add")(X), Total()(X))


def test_batch_norm_in_train_mode(program: Program) -> None:
    method, eager = program.method("norm"), Normalized().train()
    for seed in range(3):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)) * 2 + 1
        torch.testing.assert_close(method(x)[0], eager(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", ["add", "look"])
@pytest.mark.parametrize("told", [False, True])
def test_methods_of_a_program_share_state(program: Program, first: str, told: bool) -> None:
    methods = {first: program.method(first)}
    second = {"add": "look", "look": "add"}[first]
    methods[second] = program.method(second, share_state=methods[first] if told else None)
    eager, look = Total(), Look()
    look.load_state_dict(eager.state_dict(), assign=True)
    for factor in (1, 2):
        torch.testing.assert_close(methods["add"](X * factor), eager(X * factor))
        torch.testing.assert_close(methods["look"](X), look(X))


def test_a_method_that_is_loaded_later_sees_what_was_written(program: Program) -> None:
    add, eager, look = program.method("add"), Total(), Look()
    look.load_state_dict(eager.state_dict(), assign=True)
    torch.testing.assert_close(add(X), eager(X))
    torch.testing.assert_close(program.method("look")(X), look(X))
    torch.testing.assert_close(add(X), eager(X))


def test_a_second_load_of_a_method_begins_a_second_state(program: Program) -> None:
    """So one program holds several conversations; what is loaded later belongs to the newest."""
    first, second = program.method("add"), program.method("add")
    first(X)
    look = program.method("look")
    torch.testing.assert_close(look(X), Look()(X))
    second(X)
    assert not torch.equal(look(X)[0], Look()(X)[0])
    torch.testing.assert_close(second(X), first(X))


def test_a_state_of_its_own_on_request(program: Program) -> None:
    add = program.method("add")
    alone = program.method("look", share_state=False)
    with_alone = program.method("add", share_state=alone)
    add(X)
    torch.testing.assert_close(alone(X), Look()(X))
    with_alone(X)
    assert not torch.equal(alone(X)[0], Look()(X)[0])


def test_methods_are_kept_apart_at_lowering(program: Program) -> None:
    """``CpuPartitioner(share_state=False)``; a request of the runtime's is an error then."""
    own, add = program.method("own"), program.method("add")
    add(X)
    torch.testing.assert_close(own(X), Total()(X))
    with pytest.raises(ProgramError, match="lowered with share_state=False"):
        program.method("own", share_state=add)


STOCK = """
import sys, torch
from pathlib import Path
from aoti_plugins.runtime import register; register()
from executorch.runtime import Runtime
path, data, source = sys.argv[1:]
source = path if source == "path" else Path(path).read_bytes()
loaded = [Runtime.get().load_program(source, data_path=data or None) for _ in range(2)]
# In turn, so that no order of loads can tell the two apart.
methods = {(name, i): loaded[i].load_method(name) for name in ("look", "add") for i in (0, 1)}
x = torch.tensor([0.5, -1.0, 4.0])
total, calls = torch.tensor([1.0, 2.0, 3.0]), 7
for _ in range(3):
    total, calls = total + x, calls + 1
    found = methods["add", 0].execute([x])
    assert torch.equal(found[0], total * 2) and found[1] == calls, found
    found = methods["look", 0].execute([x])
    assert torch.equal(found[0], total + x) and found[1] == calls * 10, found
    found = methods["look", 1].execute([x])
    assert found[1] == 70, found
"""


@needs_executorchs_extension
@pytest.mark.parametrize("source", ["path", "bytes"])
@pytest.mark.parametrize("with_data", [False, True], ids=["whole", "with data file"])
def test_executorchs_own_runtime_shares_within_a_load(
    lowered: Any,
    external: Path,
    tmp_path: Path,
    run_python: Callable[..., str],
    with_data: bool,
    source: str,
) -> None:
    """Without a load option: the Python runtime has none. The bytes are the same object twice."""
    path, data = external, str(external.parent / "aoti_cpu_blob.ptd")
    if not with_data:
        path, data = tmp_path / "program.pte", ""
        path.write_bytes(lowered.buffer)
    run_python(STOCK, path, data, source)


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two methods with their weights in a data file."""
    programs = {"add": export(Total(), (X,)), "look": export(Look(), (X,))}
    partitioner = CpuPartitioner(external_data=True)
    lowered = to_edge_transform_and_lower(programs, partitioner=[partitioner]).to_executorch()
    folder = tmp_path_factory.mktemp("external")
    lowered.write_tensor_data_to_file(str(folder))
    path = folder / "program.pte"
    path.write_bytes(lowered.buffer)
    return path


def test_a_buffer_that_is_read_only_stays_in_memory(lowered: Any) -> None:
    """Inductor would write small constants into the code."""
    plans = {plan.name: plan for plan in lowered.executorch_program.execution_plan}
    data = lowered.executorch_program.backend_delegate_data
    (delegate,) = plans["look"].delegates
    constants = decode(bytes(data[delegate.processed.index].data)).constants
    kinds = {constant.fqn: constant.kind for constant in constants}
    assert kinds["total"] == kinds["calls"] == ConstantKind.MUTABLE_BUFFER


def test_what_cannot_be_shared_is_refused(lowered: Any, program: Program) -> None:
    add = program.method("add")
    with pytest.raises(ProgramError) as caught:
        program.method("other", share_state=add)
    for words in ("'other' and 'add'", "no mutable buffer of one name", "another layout"):
        assert words in str(caught.value)
    with pytest.raises(ProgramError) as caught:
        program.method("norm", share_state=add)
    for words in ("'norm' and 'add'", "no mutable buffer of one name", "share_mutable_buffers"):
        assert words in str(caught.value)
    with (
        Program(bytes(lowered.buffer)) as other,
        pytest.raises(ProgramError, match="of another program"),
    ):
        other.method("look", share_state=add)


class Outside(nn.Module):
    """A state that an op outside of the delegates reads, so that ExecuTorch keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(3, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        distances = torch.cdist(self.seen + x, x)
        self.seen.add_(x)
        return distances @ self.seen


class OutsideLater(Outside):
    """The same state, read and written in another way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = torch.cdist(self.seen, x * 2)
        self.seen.mul_(2)
        return result @ self.seen


class Returned(nn.Module):
    """A state that is returned, and one that decides between branches."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(3, 2))
        self.register_buffer("seen_in_branches", torch.zeros(3, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen.add_(x)
        self.seen_in_branches.sub_(x)
        chosen = torch.cond(
            self.seen.sum() > 0,
            lambda y, state: y + state * 2,
            lambda y, state: y - state,
            (x, self.seen_in_branches),
        )
        return self.seen, chosen


def test_states_that_executorch_keeps(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.tensor([[0.5, 1.0], [2.0, -1.0], [0.0, 1.5]])
    programs = {
        "first": export(Outside(), (x,)),
        "second": export(OutsideLater(), (x,)),
        "returned": export(Returned(), (x,)),
    }
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        edge = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner()])
    assert "ExecuTorch keeps what this program writes to seen:" in caplog.text
    assert "InitializedMutableBufferPass" in caplog.text
    lowered = edge.to_executorch(
        ExecutorchBackendConfig(
            passes=[InitializedMutableBufferPass(["seen"])],
            memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True),
        )
    )
    with Program(bytes(lowered.buffer)) as program:
        eager = Returned()
        method = program.method("returned")
        for factor in (1, -3, 2):
            torch.testing.assert_close(method(x * factor), eager(x * factor))
        one, other = Outside(), OutsideLater()
        other.load_state_dict(one.state_dict(), assign=True)
        first = program.method("first")
        second = program.method("second", share_state=first)
        for _ in range(2):
            for eager_method, method in ((one, first), (other, second)):
                torch.testing.assert_close(method(x)[0], eager_method(x))


class Writes(nn.Module):
    """Writes to its input."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2).add_(y)
        return x.sum() + y


def test_an_input_that_is_written_to() -> None:
    """As ExecuTorch has it: the new value is one more output, and the caller's tensor stays."""
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    lowered = lower(Writes(), (x.clone(), y))
    with Program(bytes(lowered.buffer)) as program:
        eager, ours = x.clone(), x.clone()
        for _ in range(2):
            new, result = program(ours, y)
            torch.testing.assert_close(result, Writes()(eager, y))
            torch.testing.assert_close(new, eager)
            ours = new
        torch.testing.assert_close(x, torch.tensor([1.0, 2.0]))
