"""Which buffers methods of one program can share, and what is said where they cannot."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram, export

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering import written_buffers


class Counter(nn.Module):
    """Adds to a buffer, or only reads it."""

    def __init__(self, first: torch.Tensor, *, writes: bool = True) -> None:
        super().__init__()
        self.register_buffer("count", first)
        self.writes = writes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.writes:
            self.count.add_(1)
        return x + self.count.sum()


def method(first: torch.Tensor, *, writes: bool = True) -> list[ExportedProgram]:
    exported = export(Counter(first, writes=writes), (torch.ones(2),))
    return [exported.run_decompositions({})]


def test_who_only_reads_shares_what_another_writes() -> None:
    reader = method(torch.zeros(3), writes=False)
    with written_buffers.known({"write": method(torch.zeros(3)), "read": reader}):
        assert written_buffers.read_by(reader[0], "read") == {"count"}
        assert written_buffers.is_shared("count", "write")
        assert not written_buffers.is_shared("count", "another")
    assert not written_buffers.is_shared("count", "write")
    with written_buffers.known({"read": reader}):
        assert not written_buffers.read_by(reader[0], "read")


@pytest.mark.parametrize(
    "other", [torch.zeros(2, 2), torch.zeros(3, dtype=torch.float64), torch.zeros(6)[::2]]
)
def test_buffers_of_other_layouts_stay_apart_with_a_warning(
    other: torch.Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    programs = {"a": method(torch.zeros(3)), "b": method(other), "c": method(torch.zeros(3))}
    with (
        caplog.at_level(logging.WARNING, "aoti_plugins"),
        written_buffers.known(programs),
    ):
        shared = [written_buffers.is_shared("count", name) for name in "abc"]
    assert shared == [True, False, True]
    assert "'count' is" in caplog.text
    assert "in 'b' and float32 [3] in 'a'" in caplog.text


def test_buffers_of_other_first_values_are_an_error() -> None:
    programs = {"a": method(torch.zeros(3)), "b": method(torch.ones(3), writes=False)}
    with pytest.raises(LoweringError) as caught, written_buffers.known(programs):
        pass
    for words in ("'count' in 'b' and in 'a'", "share_state=False", "before the module runs"):
        assert words in str(caught.value)


def test_a_nan_is_equal_to_itself() -> None:
    programs = {name: method(torch.full((3,), torch.nan)) for name in "ab"}
    with written_buffers.known(programs):
        assert written_buffers.is_shared("count", "b")
