"""Answers of a server in turns, without a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from aoti_plugins.errors import ServingError
from aoti_plugins.serving.turns import Turn, Turns

WAIT_S = 10


class Told:
    """What a turn told, and a turn that tells it."""

    def __init__(self, log: list[str], steps: Iterator[str]) -> None:
        self.ended = threading.Event()
        self.error: Exception | None = None
        self.turn = Turn(steps, log.append, self._end)

    def _end(self, error: Exception | None) -> None:
        self.error = error
        self.ended.set()


def named(name: str, count: int, gate: threading.Event | None = None) -> Iterator[str]:
    """Steps; the first waits for a gate."""
    for number in range(count):
        if gate is not None:
            assert gate.wait(WAIT_S)
        yield f"{name}{number}"


def test_each_has_a_step_after_the_other() -> None:
    turns, log, gate = Turns(), [], threading.Event()
    told = [Told(log, named("a", 5, gate)), Told(log, named("b", 2)), Told(log, named("c", 3))]
    for one in told:
        turns.begin(one.turn)
    gate.set()
    assert all(one.ended.wait(WAIT_S) for one in told)
    assert log == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "c2", "a3", "a4"]
    assert turns.close(WAIT_S)


def test_an_error_ends_one_answer_only() -> None:
    def failing() -> Iterator[str]:
        yield "begun"
        raise ValueError("broken")

    turns, log = Turns(), []
    bad, good = Told(log, failing()), Told(log, named("a", 3))
    turns.begin(bad.turn)
    turns.begin(good.turn)
    assert bad.ended.wait(WAIT_S)
    assert good.ended.wait(WAIT_S)
    assert str(bad.error) == "broken"
    assert good.error is None
    assert log[-1] == "a2"
    assert turns.close(WAIT_S)


def test_what_is_cancelled_ends_before_its_next_step() -> None:
    turns, log, gate = Turns(), [], threading.Event()
    told = Told(log, named("a", 9, gate))
    turns.begin(told.turn)
    told.turn.cancel()
    gate.set()
    assert told.ended.wait(WAIT_S)
    assert told.error is None
    assert len(log) <= 1
    assert turns.close(WAIT_S)


def test_closing_ends_all_and_refuses_more() -> None:
    turns, log, gate, waits = Turns(), [], threading.Event(), threading.Event()

    def waiting() -> Iterator[str]:
        waits.set()
        yield from named("a", 9, gate)

    told = [Told(log, waiting()), Told(log, named("b", 9))]
    for one in told:
        turns.begin(one.turn)
    assert waits.wait(WAIT_S)
    assert not turns.close(0.01)
    gate.set()
    assert turns.close(WAIT_S)
    assert all(isinstance(one.error, ServingError) for one in told)
    assert not turns.healthy
    with pytest.raises(ServingError, match="is ending"):
        turns.begin(told[0].turn)
