"""Groups, plans, and programs of ranks that cannot be one; nothing is compiled."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed._functional_collectives as funcol
from rank_models import Decoder
from torch import nn
from torch.export import export

from aoti_plugins import CpuPartitioner, parallel
from aoti_plugins.errors import LoweringError, ProgramError
from aoti_plugins.generation import led_program
from aoti_plugins.lowering.ranks.parts import check_same_code
from aoti_plugins.parallel.groups import group_of_ranks
from aoti_plugins.runtime import current_place

X = torch.ones(4, 8)


@pytest.mark.parametrize(
    ("ranks", "rank", "world_size", "expected"),
    [
        ([0, 1, 2, 3], 2, 4, parallel.Group(4, 4, 1)),
        ([2, 3], 2, 4, parallel.Group(4, 2, 1)),
        ([1, 3], 3, 4, parallel.Group(4, 2, 2)),
        ([5], 5, 6, parallel.Group(6, 1, 1)),
    ],
)
def test_groups_are_dims_of_a_mesh(
    ranks: list[int], rank: int, world_size: int, expected: parallel.Group
) -> None:
    assert group_of_ranks(ranks, rank, world_size) == expected
    assert expected.ranks(rank) == ranks


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("index", [-1, 8, 2**40])
def test_a_row_that_no_rank_has_is_refused(rank: int, index: int) -> None:
    table = nn.Sequential(nn.Embedding(8, 4))
    parallel.parallelize(table, {"0": "rowwise"}, rank, 2)
    with parallel.as_rank(rank, 2):
        assert table(torch.tensor([0, 7])).shape == (2, 4)
        with pytest.raises(IndexError):
            table(torch.tensor([3, index]))


def test_code_is_compared_without_names_of_operations() -> None:
    """Passes of the ranks count them on, and may see other constants."""

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2).relu()

    one, same, other = (export(Scaled(), (X,)) for _ in range(3))
    (renamed,) = (node for node in same.graph.nodes if "mul" in node.name)
    renamed.name = "mul_47"
    check_same_code([one, same])
    (changed,) = (node for node in other.graph.nodes if "mul" in node.name)
    changed.args = (changed.args[0], 3)
    with pytest.raises(LoweringError, match=r"of rank 2 than of those of rank 0, .*mul\.Tensor"):
        check_same_code([one, same, other])


@pytest.mark.parametrize("ranks", [[0, 1, 2], [0, 3], [1, 2], [1, 0]])
def test_other_groups_are_refused(ranks: list[int]) -> None:
    with pytest.raises(LoweringError, match=r"a collective is among the ranks \[.* of 4; one prog"):
        group_of_ranks(ranks, ranks[0], 4)


class Reduced(nn.Module):
    """A sum over all ranks, and what differs."""

    def __init__(self, rank: int, kind: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((8,), float(rank)))
        self.register_buffer("state", torch.zeros(8 + rank if kind == "sizes" else 8))
        if kind == "state":
            self.state += rank
        self.rank, self.kind = rank, kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[4, 8]`` to the same."""
        import torch.distributed as dist

        x = funcol.all_reduce(x * self.weight, "sum", dist.group.WORLD)
        if self.kind == "state":
            self.state += 1
        if self.kind == "code" and self.rank:
            x = x.relu()
        if self.kind == "number":
            x = (x + self.rank).narrow(1, self.rank * 4, 4)
        return x + self.state.sum()


def exported(kind: str, world_size: int = 2) -> Any:
    return parallel.export_ranks(lambda rank: export(Reduced(rank, kind), (X,)), world_size)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("code", "the program of rank 1 is another one than that of rank 0"),
        ("sizes", r"constant 'state' of the program is float32 \[8\] on rank 0 and float32 \[9\]"),
        ("state", "the program writes to the buffer 'state', which begins with other values"),
    ],
)
def test_ranks_that_cannot_be_one_program(kind: str, reason: str) -> None:
    with pytest.raises(LoweringError, match=reason):
        exported(kind)


def test_collectives_and_constants_name_ranks() -> None:
    program = exported("number")
    text = str(program.graph)
    assert "_c10d_functional" not in text
    assert "aoti_plugins.all_reduce.default](args = (%mul, 0, 2, 2, 1)" in text
    assert program.state_dict["weight"].tolist() == [[0.0] * 8, [1.0] * 8]
    assert program.state_dict["state"].shape == (8,)
    assert text.count("aoti_plugins.of_rank.default") == 3  # the weight, and two numbers
    assert not torch.distributed.is_initialized()
    with parallel.as_rank(1, 2), pytest.raises(LoweringError, match="is initialized already"):
        exported("")


def test_eager_parts_are_those_of_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    stacked = torch.arange(6).reshape(3, 2)
    monkeypatch.setenv("RANK", "2")
    assert torch.ops.aoti_plugins.of_rank(stacked).tolist() == [4, 5]
    with pytest.raises(RuntimeError, match="a collective among 2 of 2 ranks: in PyTorch it needs"):
        torch.ops.aoti_plugins.all_reduce(X, 0, 2, 2, 1)


def test_lowering_where_groups_are_gone_says_so() -> None:
    from executorch.exir import to_edge_transform_and_lower

    with parallel.as_rank(0, 2):
        program = export(Reduced(0, ""), (X,))
    with pytest.raises(LoweringError, match=r"export it with aoti_plugins\.parallel\.exp"):
        to_edge_transform_and_lower(program, partitioner=[CpuPartitioner()])


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"layers.*.none": "colwise"}, r"the plan names 'layers\.\*\.none', and the module has no"),
        (
            {"head": "diagonal"},
            "the plan wants 'diagonal' for 'head', a Linear; there are: c",
        ),
        ({"layers.*.norm": "colwise"}, "for 'layers.0.norm', a RMSNorm; there are: moe_tp_experts"),
        ({"embedding": "colwise"}, "for 'embedding', a Embedding; there are: embedding_rowwise"),
    ],
)
def test_plans_are_checked(plan: dict[str, str], reason: str) -> None:
    with pytest.raises(LoweringError, match=reason):
        parallel.parallelize(Decoder(), plan, 0, 2)


def test_sizes_that_cannot_be_divided() -> None:
    with pytest.raises(LoweringError, match=r"the weight of 'head' is \[24, 32\], and its dim"):
        parallel.parallelize(Decoder(), {"head": "colwise"}, 0, 5)
    with pytest.raises(LoweringError, match="ranks are 0 to 1; found 2"):
        parallel.parallelize(Decoder(), {}, 2, 2)


def test_the_environment_says_the_place() -> None:
    assert current_place({"RANK": "1", "WORLD_SIZE": "2"}) == (1, 2)
    assert current_place({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}) == (3, 4)
    assert current_place({"RANK": "1"}) == (0, 1)
    with pytest.raises(ProgramError, match="RANK and WORLD_SIZE are 'x' and '2', expected numbers"):
        current_place({"RANK": "x", "WORLD_SIZE": "2"})


def test_a_file_says_which_rank_this_is(tmp_path: Path) -> None:
    path = tmp_path / "rank"
    said = {"AOTI_PLUGINS_RANK_FILE": str(path)}
    with pytest.raises(ProgramError, match=r"AOTI_PLUGINS_RANK_FILE is '.*No such file"):
        current_place(said)
    path.write_text("# of this host\n\nRANK = 1\r\nWORLD_SIZE=2\n")
    assert current_place(said) == (1, 2)
    assert current_place({**said, "RANK": "0"}) == (0, 2)
    path.write_text("RANK=1\nWORLD_SIZE\n")
    with pytest.raises(ProgramError, match=r"line 2 of .* is 'WORLD_SIZE', expected NAME=VALUE"):
        current_place(said)


class Recorded:
    """Stands for a program: its methods note what they are called with."""

    methods = ("get_max", "forward")

    def __init__(self) -> None:
        self.log: list[Any] = []

    def method(self, name: str, share_state: Any = None) -> Any:
        self.log.append((name, share_state if share_state in (None, False) else "other"))
        return RecordedMethod(self.log)

    def close(self) -> None:
        self.log.append("closed")


class RecordedMethod:
    """One of its methods."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __call__(self, *inputs: Any, copy: bool = True) -> tuple[Any, ...]:
        self.log.append([(one.dtype.str, one.tolist()) for one in inputs])
        if any(one.size == 1 for one in inputs):
            raise ProgramError("one element is too few")
        return (inputs[0] * 2,)

    def close(self) -> None:
        self.log.append("method closed")


def test_other_ranks_do_what_rank_0_does() -> None:
    words: queue.Queue[bytes] = queue.Queue()

    def tell(word: bytes) -> bytes:
        words.put(word)
        return word

    own, others = Recorded(), Recorded()
    follower = threading.Thread(target=led_program._follow, args=(others, lambda _: words.get()))
    follower.start()
    with led_program.LedProgram(own, tell) as program:  # type: ignore[arg-type]
        program.method("get_max")
        first = program.method("forward", share_state=False)
        second = program.method("forward", share_state=first)  # type: ignore[arg-type]
        large = np.arange(3000)
        np.testing.assert_array_equal(first(large)[0], large * 2)
        with pytest.raises(ProgramError, match="too few"):
            second(np.ones(1, np.float32))
        second(np.ones((2, 2)), np.array([True, False]))
        second.close()
    follower.join(10)
    assert not follower.is_alive()
    assert own.log == [("get_max", None), *others.log, "closed"]
    assert others.log[:2] == [("forward", False), ("forward", "other")]
    assert others.log[-1] == "method closed"
