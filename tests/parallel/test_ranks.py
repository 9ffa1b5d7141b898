"""Programs on several processes give what one process gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rank_models import Decoder, Perceptron
from rank_programs import export_decoder
from ranks_support import Ended, run_ranks

from aoti_plugins import parallel
from aoti_plugins.runtime import data_files_of_rank

TOKENS = np.array([[3, 17, 5, 9]]), np.array([[21]]), np.array([[1]])
POSITIONS = np.arange(4), np.array([4]), np.array([5])
CALLS = list(zip(TOKENS, POSITIONS, strict=True))
WORDS = [(np.array([3, 15, 0, 8]),)]


@pytest.mark.parametrize("world_size", [2, 4])
@torch.no_grad()
def test_a_decoder_with_experts(lowered_ranks: Callable[..., Path], world_size: int) -> None:
    path = lowered_ranks(f"decoder_{world_size}", lambda: export_decoder(world_size))
    eager = Decoder().eval()
    expected = [eager(*map(torch.from_numpy, call)) for call in CALLS]
    ended = run_ranks([path] * world_size, CALLS)
    for one in ended:
        assert isinstance(one, Ended)
        assert one.error == "", one.log
        for found, right in zip(one.outputs, expected, strict=True):
            np.testing.assert_allclose(found[0], right.numpy(), rtol=1e-4, atol=1e-5)
    for index in range(len(CALLS)):
        bits = {one.outputs[index][0].tobytes() for one in ended if one is not None}
        assert len(bits) == 1  # sums are in one order


@torch.no_grad()
def test_weights_are_stored_once(lowered_ranks: Callable[..., Path]) -> None:
    path = lowered_ranks("decoder_2", lambda: export_decoder(2))
    names = ["decoder_2.ptd", "decoder_2.pte", "decoder_2.rank-0.ptd", "decoder_2.rank-1.ptd"]
    assert sorted(one.name for one in path.parent.iterdir()) == names
    files = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    layer = Decoder().layers[0]
    whole = {
        "router": (layer.router.weight, "decoder_2.ptd"),
        "q of rank 0": (layer.q.weight.chunk(2)[0], "decoder_2.rank-0.ptd"),
        "q of rank 1": (layer.q.weight.chunk(2)[1], "decoder_2.rank-1.ptd"),
        "out of rank 1": (layer.out.weight.chunk(2, 1)[1], "decoder_2.rank-1.ptd"),
    }
    for what, (weight, place) in whole.items():
        data = weight.contiguous().numpy().tobytes()
        assert {name: text.count(data) for name, text in files.items()} == {
            name: int(name == place) for name in files
        }, what
    assert data_files_of_rank(path, 1) == [path.with_suffix(".ptd"), path.parent / names[3]]


@torch.no_grad()
def test_dtensors(perceptron: Path) -> None:
    expected = Perceptron()(torch.from_numpy(WORDS[0][0])).numpy()
    for one in run_ranks([perceptron] * 2, WORDS):
        assert one is not None
        assert one.error == ""
        np.testing.assert_allclose(one.outputs[0][0], expected, rtol=1e-5, atol=1e-6)


class AllOfThem(torch.nn.Module):
    """Each collective, over a dim of a mesh."""

    def __init__(self, mesh: Any) -> None:
        super().__init__()
        self.rows, self.columns = mesh["rows"].get_group(), mesh["columns"].get_group()

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        import torch.distributed._functional_collectives as funcol

        rank = funcol.all_reduce(x[0, 0], "sum", self.rows)
        columns = self.columns
        pair = funcol.all_reduce_coalesced([x, x + 1], "min", columns)
        return (
            rank + pair[0] + 2 * pair[1],
            funcol.all_reduce(n, "product", self.rows),
            funcol.all_gather_tensor(x, 1, self.rows),
            funcol.reduce_scatter_tensor(x, "avg", 0, columns),
            funcol.all_to_all_single(x, None, None, self.rows),
            funcol.broadcast(x.half() * 2, 1, columns),
            funcol.all_reduce(x.bfloat16() * 3, "max", columns).float(),
        )


def test_every_collective_over_a_mesh(lowered_ranks: Callable[..., Path]) -> None:
    def make(rank: int) -> Any:
        from torch.distributed.device_mesh import init_device_mesh

        del rank
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
        return torch.export.export(AllOfThem(mesh), (torch.zeros(4, 6), torch.ones(3).long()))

    path = lowered_ranks("collectives", lambda: parallel.export_ranks(make, 4))
    x = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
    ended = run_ranks([path] * 4, [(x, np.array([1, 2, 3]))])
    for one in ended:
        assert one is not None
        assert one.error == ""
        found = one.outputs[0]
        np.testing.assert_array_equal(found[0], x[0, 0] * 2 + x + 2 * (x + 1))
        np.testing.assert_array_equal(found[1], [1, 4, 9])
        np.testing.assert_array_equal(found[2], np.concatenate([x, x], 1))
        np.testing.assert_array_equal(found[5], (x * 2).astype(np.float16))
    columns = [ended[rank].outputs[0][3] for rank in (0, 1)]  # type: ignore[union-attr]
    np.testing.assert_array_equal(np.concatenate(columns), x)
    for rank, one in enumerate(ended):
        half = x[:2] if rank < 2 else x[2:]  # what both ranks of a row group had for this place
        np.testing.assert_array_equal(one.outputs[0][4], np.concatenate([half, half]))  # type: ignore[union-attr]
        three = (torch.from_numpy(x).bfloat16() * 3).float().numpy()
        np.testing.assert_array_equal(one.outputs[0][6], three)  # type: ignore[union-attr]


def test_a_rank_with_another_program(perceptron: Path, other_perceptron: Path) -> None:
    for one in run_ranks([perceptron, other_perceptron], WORDS):
        assert one is not None
        assert "rank 1 of 2 has another program than rank 0" in one.error
    assert all(one is not None and not one.error for one in run_ranks([perceptron] * 2, WORDS))


def test_a_rank_with_another_ranks_weights(perceptron: Path) -> None:
    wrong = {1: data_files_of_rank(perceptron, 0)}
    for one in run_ranks([perceptron] * 2, WORDS, data_files=wrong):
        assert one is not None
        assert "rank 1 of 2: the weights of rank 1 are not in the program" in one.error
        assert "there are those of rank 0. Load its own data file (.rank-1.ptd)" in one.error


def test_a_rank_that_does_not_come(perceptron: Path) -> None:
    start = time.monotonic()
    first, _ = run_ranks([perceptron, None], WORDS, timeout_s=1)
    assert first is not None
    assert "rank 1 of 2 did not come to the meeting within 1 s" in first.error
    _, second = run_ranks([None, perceptron], WORDS, timeout_s=1)
    assert second is not None
    assert "rank 0 of 2 did not come to the meeting within 1 s" in second.error
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_ends_between_calls(perceptron: Path, rank: int) -> None:
    start = time.monotonic()
    ended = run_ranks([perceptron] * 2, WORDS * 2, ends={rank: "exits"})
    assert time.monotonic() - start < 20
    other = ended[1 - rank]
    assert other is not None
    assert len(other.outputs) == 1
    assert f"rank {rank} of 2 (process " in other.error
    assert "has ended" in other.error


def test_a_rank_that_is_late(perceptron: Path) -> None:
    ended = run_ranks([perceptron] * 2, WORDS * 2, ends={1: "sleeps"}, timeout_s=1)
    for one in ended:
        assert one is not None
        assert len(one.outputs) == 1
        assert "rank 1 of 2 (process " in one.error
        assert "did not come to all_reduce within 1 s" in one.error


def test_one_process_is_told_what_is_missing(
    perceptron: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aoti_plugins.errors import ProgramError
    from aoti_plugins.runtime import Program

    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with (
        Program(perceptron) as program,
        pytest.raises(ProgramError, match="which rank this process is is not known: start the"),
    ):
        program.method("forward")


def test_more_ranks_than_the_program_is_for(perceptron: Path) -> None:
    files = data_files_of_rank(perceptron, 0)
    ended = run_ranks([perceptron] * 3, WORDS, data_files={2: files})
    for one in ended:
        assert one is not None
        assert "the program is for 2 ranks, and 3 were started" in one.error


def test_digests_of_all_ranks_are_compared(perceptron: Path, tmp_path: Path) -> None:
    from aoti_plugins.payload import decode
    from aoti_plugins.signing.program_file import ProgramFile

    files = [perceptron.with_suffix(end) for end in (".ptd", ".rank-0.ptd", ".rank-1.ptd")]

    def problems(*data_files: Path) -> list[str]:
        file = ProgramFile(perceptron, data_files)
        return [p for place in file.payloads for p in file.problems(decode(place.data))]

    assert problems(*files) == []
    assert problems(*files[:2]) == []  # a rank's own
    assert any("@rank0'" in one for one in problems(files[0]))
    data = bytearray(files[2].read_bytes())
    weight = Perceptron().first.weight.chunk(2)[1].detach().numpy().tobytes()
    data[bytes(data).index(weight)] ^= 1
    damaged = tmp_path / "damaged.ptd"
    damaged.write_bytes(data)
    (found,) = problems(*files[:2], damaged)
    assert "@rank1': SHA-256 is" in found
