"""Random ops: other numbers with each call, the same ones after a seed, and of the right kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from support import needs_executorchs_extension
from torch import nn
from torch.nn import functional

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program, get_options, register, set_options

CPU = "AotiCpuBackend"


class Everything(nn.Module):
    """Every random op that is lowered; outputs that need many numbers have ``n``."""

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        n = 4000
        many, p = torch.zeros(n), torch.full((n,), 0.25)
        return {
            "rand": torch.rand(n),
            "rand again": torch.rand(n),
            "randn": torch.randn(n),
            "rand_like": torch.rand_like(x),
            "randn_like": torch.randn_like(x, dtype=torch.float64),
            "randint": torch.randint(-2, 4, (n,)),
            "randint wide": torch.randint(-(2**40), 2**61, (n,)),
            "randint_like": torch.randint_like(x, 7),
            "randperm": torch.randperm(97),
            "bernoulli": torch.bernoulli(p),
            "bernoulli p": torch.bernoulli(many, 0.25),
            "dropout": functional.dropout(many + 1, 0.5, training=True),
            "alpha_dropout": functional.alpha_dropout(x, 0.5, training=True),
            "dropout1d": functional.dropout1d(x, 0.5, training=True),
            "rrelu": functional.rrelu(many - 1, training=True),
            "normal": torch.normal(3.0, 0.5, (n,)),
            "normal of tensors": torch.normal(many + 3, p),
            "uniform": torch.empty_like(many).uniform_(2, 3),
            "exponential": torch.empty_like(many).exponential_(2.0),
            "log_normal": torch.empty_like(x).log_normal_(),
            "cauchy": torch.empty_like(x).cauchy_(),
            "geometric": torch.empty_like(many).geometric_(0.25),
            "multinomial": torch.multinomial(weights, 3),
            "multinomial one": torch.multinomial(weights.expand(n, 5), 1),
            "multinomial again": torch.multinomial(weights, n, replacement=True),
        }


INPUTS = (torch.randn(6, 8), torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]))


@pytest.fixture(scope="module")
def everything(lower_whole: Callable[..., bytes]) -> bytes:
    return lower_whole(Everything(), INPUTS)


@pytest.fixture(autouse=True)
def _seed_is_put_back() -> Iterator[None]:
    before = get_options(CPU)
    yield
    set_options(CPU, **before)


def called(program: Program) -> dict[str, torch.Tensor]:
    """The outputs by name; ExecuTorch keeps their order."""
    return dict(zip(Everything()(*INPUTS), program(*INPUTS), strict=True))


def test_calls_differ_and_a_seed_repeats_them(everything: bytes) -> None:
    with Program(everything) as program, Program(everything) as other:
        first, *others = (called(program) for _ in range(20))
        for name, value in first.items():  # of all, since a few draws can come twice in a row
            assert not all(torch.equal(value, found[name]) for found in others), name
        assert not torch.equal(first["rand"], first["rand again"])
        set_options(CPU, seed=1)
        assert get_options(CPU)["seed"] == 1
        runs = [called(program), called(program)]
        set_options(CPU, seed=1)
        for run in runs:  # of another program with the same code
            found = called(other)
            assert [name for name in run if not torch.equal(run[name], found[name])] == []
        set_options(CPU, seed=-2)
        assert not torch.equal(called(program)["rand"], runs[0]["rand"])


def test_distributions(everything: bytes) -> None:
    """Dtypes and shapes are PyTorch's; means and spreads are within five standard errors."""
    set_options(CPU, seed=0)
    with Program(everything) as program:
        found = called(program)
    for name, expected in Everything()(*INPUTS).items():
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape), name
    means = {
        "rand": (0.5, 12**-0.5),
        "randn": (0.0, 1.0),
        "randint": (0.5, (35 / 12) ** 0.5),
        "bernoulli": (0.25, 0.1875**0.5),
        "bernoulli p": (0.25, 0.1875**0.5),
        "dropout": (1.0, 1.0),
        "rrelu": (-(1 / 8 + 1 / 3) / 2, (1 / 3 - 1 / 8) * 12**-0.5),
        "normal": (3.0, 0.5),
        "normal of tensors": (3.0, 0.25),
        "uniform": (2.5, 12**-0.5),
        "exponential": (0.5, 0.5),
        "geometric": (4.0, 12**0.5),
        "multinomial one": (3.0, 1.0),
        "multinomial again": (3.0, 1.0),
    }
    for name, (mean, deviation) in means.items():
        values = found[name].double()
        assert abs(values.mean() - mean) < 5 * deviation / values.numel() ** 0.5, name
        assert values.std().item() == pytest.approx(deviation, rel=0.15), name


def test_values_are_those_that_there_can_be(everything: bytes) -> None:
    with Program(everything) as program:
        found = called(program)
    for name, (low, high) in {"rand": (0, 1), "randint": (-2, 4), "uniform": (2, 3.001)}.items():
        assert found[name].min() >= low, name
        assert found[name].max() < high, name
    assert found["randint"].unique().tolist() == [-2, -1, 0, 1, 2, 3]
    assert found["randint wide"].min() >= -(2**40)
    assert found["randint wide"].unique().numel() == found["randint wide"].numel()
    assert found["randperm"].sort().values.tolist() == list(range(97))
    assert found["bernoulli"].unique().tolist() == [0, 1]
    assert found["dropout"].unique().tolist() == [0, 2]
    rows = found["dropout1d"].ne(0).sum(1).tolist()
    assert set(rows) <= {0, 8}  # a row as a whole
    chosen = found["multinomial"].tolist()
    assert len(set(chosen)) == 3
    for name in ("multinomial", "multinomial one", "multinomial again"):
        assert 0 not in found[name], name  # its weight is 0
    assert (found["exponential"] > 0).all()
    assert (found["geometric"] >= 1).all()


def test_two_parts_of_a_program_have_numbers_of_their_own() -> None:
    """The op between them is not the delegate's."""
    from support import lower

    class Parts(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            first = torch.rand(3, 4)
            between = torch.cdist(first + x, x)
            return first, torch.rand(3, 4) + between.sum() * 0

    x = torch.randn(3, 4)
    with Program(bytes(lower(Parts(), (x,)).buffer)) as program:
        set_options(CPU, seed=1)
        one, other = program(x)
        assert not torch.equal(one, other)
        set_options(CPU, seed=1)
        assert torch.equal(program(x)[1], other)


@needs_executorchs_extension
def test_with_the_stock_runtime(everything: bytes, tmp_path: Path) -> None:
    from executorch import runtime

    path = tmp_path / "random.pte"
    path.write_bytes(everything)
    register()
    method = runtime.Runtime.get().load_program(path).load_method("forward")
    runs = []
    for _ in range(2):
        set_options(CPU, seed=4)
        runs.append([value.clone() for value in method.execute(list(INPUTS))])
    assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))


def test_ops_that_are_not_lowered_say_so() -> None:
    """ExecuTorch does not let it into edge programs; let in, the partitioner refuses it."""
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner

    class Poisson(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.poisson(x) * 2

    op = torch.ops.aten.poisson.default
    program = to_edge_transform_and_lower(
        torch.export.export(Poisson(), (torch.rand(3),)),
        partitioner=[CpuPartitioner(allow_missing_kernels=True)],
        compile_config=EdgeCompileConfig(_core_aten_ops_exception_list=[op]),
    )
    outside = {str(node.target) for node in program.exported_program().graph.nodes}
    assert any("poisson" in name for name in outside)


def test_wrong_seeds() -> None:
    before = get_options(CPU)
    with pytest.raises(ProgramError, match=r"option .seed. has a wrong value, .*seed .int, what"):
        set_options(CPU, seed=True)
    with pytest.raises(ProgramError, match="there is no option 'sead'"):
        set_options(CPU, seed=5, sead=6)
    assert get_options(CPU) == before
