"""Write the programs that program_fuzz changes: all that a program's flatbuffer can hold.

Run as ``python make_programs.py OUTPUT SOURCE_ROOT [BLOB]``. Without BLOB only those without code
are written: they are the same everywhere, and kept in ``corpus/``. With it, those whose delegate is
a stand-in, which the build makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from executorch.exir.passes import MemoryPlanningPass
from torch._higher_order_ops import map as torch_map

OUTPUT = Path(sys.argv[1])
sys.path[:0] = [sys.argv[2], str(Path(__file__).parents[1])]

from stand_in import StandInPartitioner, use_blob  # noqa: E402

torch.manual_seed(0)
CONFIG = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
X = torch.zeros(2, 3)


class Linear(torch.nn.Module):
    """Constants, a dynamic size, an int and several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor):  # noqa: D102
        y = torch.relu(self.linear(x))
        return y, y.sum(1), y.shape[0] * 2


class Lists(torch.nn.Module):
    """Lists of tensors, of ints and of tensors that may be missing, views, a string."""

    def forward(self, x: torch.Tensor, i: torch.Tensor):  # noqa: D102
        a, b = torch.split(x, [1, 2], dim=1)
        c = torch.cat([b, a], dim=1).view(3, 2).permute(1, 0)
        return c[:, i], torch.div(x, 2, rounding_mode="floor"), torch.full((2, 2), True)


class Branches(torch.nn.Module):
    """Jumps and moves, forward and, for the map, back."""

    def forward(self, x: torch.Tensor):  # noqa: D102
        y = torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t * 2, (x,))
        return torch_map(lambda row: row + 1, y)


class Counter(torch.nn.Module):
    """A buffer that changes, with a value to start from."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        self.calls.add_(1)
        return x + self.calls


class Sum(torch.nn.Module):
    """What the stand-in gets, and something around it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return torch.relu(torch.relu(x) + x)


def lower(
    module: torch.nn.Module,
    inputs: tuple,
    partitioner=(),
    dynamic=None,
    config=None,
    name="forward",
):
    """The lowered program."""
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic)
    edge = to_edge_transform_and_lower(
        {name: exported}, partitioner={name: list(partitioner)}, compile_config=CONFIG
    )
    return edge.to_executorch(config or ExecutorchBackendConfig())


def is_add(node: torch.fx.Node) -> bool:
    """Whether the node is the one that the stand-in takes."""
    return "add" in str(node.target)


def write(name: str, program) -> None:
    """Write a program and its data."""
    (OUTPUT / f"{name}.pte").write_bytes(program.buffer)
    program.write_tensor_data_to_file(str(OUTPUT))


def plain() -> None:
    """Write the programs without code."""
    batch = torch.export.Dim("batch", min=1, max=8)
    write("linear", lower(Linear(), (X,), dynamic=({0: batch},)))
    write("lists", lower(Lists(), (X, torch.tensor([0, 2]))))
    write("branches", lower(Branches(), (X,)))
    write("counter", lower(Counter(), (X,)))
    write(
        "external", lower(Linear(), (X,), config=ExecutorchBackendConfig(external_constants=True))
    )


def delegated(blob: Path) -> None:
    """Write the programs with the stand-in."""
    use_blob(blob)
    write("whole", lower(Sum(), (X,), [StandInPartitioner()]))
    write("partly", lower(Sum(), (X,), [StandInPartitioner(is_add)]))
    shared = ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True)
    )
    exported = {name: torch.export.export(Counter(), (X,)) for name in ("first", "second")}
    edge = to_edge_transform_and_lower(exported, compile_config=CONFIG)
    write("state", edge.to_executorch(shared))


OUTPUT.mkdir(parents=True, exist_ok=True)
if len(sys.argv) > 3:
    delegated(Path(sys.argv[3]))
else:
    plain()
