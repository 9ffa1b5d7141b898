"""Garbage collection while something is lowered, and histories that copies share."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Iterator

import pytest
import torch

from aoti_plugins.lowering.new_objects import only_new_objects
from aoti_plugins.lowering.origins import share_histories


@pytest.fixture(autouse=True)
def nothing_left_out() -> Iterator[None]:
    assert not gc.get_freeze_count()
    yield
    assert not gc.get_freeze_count()


def test_old_objects_are_left_out_for_the_block() -> None:
    with only_new_objects():
        left_out = gc.get_freeze_count()
        assert left_out
        with only_new_objects():
            assert gc.get_freeze_count() == left_out
        assert gc.get_freeze_count()


def test_collections_are_rare_for_the_block() -> None:
    before = gc.get_threshold()
    with only_new_objects():
        assert gc.get_threshold() == (10_000, *before[1:])
    assert gc.get_threshold() == before
    gc.set_threshold(50_000, *before[1:])  # a user's own
    try:
        with only_new_objects():
            assert gc.get_threshold() == (50_000, *before[1:])
        assert gc.get_threshold()[0] == 50_000
    finally:
        gc.set_threshold(*before)


def test_garbage_of_the_block_is_collected() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.own = self

    with only_new_objects():
        Cycle()
        assert gc.collect()


def test_the_last_of_several_threads_puts_all_back() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with only_new_objects():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with only_new_objects():
        thread.start()
        inside.wait(10)
    assert gc.get_freeze_count()
    leave.set()
    thread.join()


def test_what_a_process_left_out_itself_stays_out() -> None:
    gc.freeze()
    try:
        with only_new_objects():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_copies_of_histories_share_their_entries() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.hardswish(x) + 1

    exported = torch.export.export(Model(), (torch.randn(3),)).run_decompositions({})
    plain = copy.deepcopy(exported)
    share_histories(exported)
    histories = [n.meta["from_node"] for n in exported.graph.nodes if "from_node" in n.meta]
    assert histories
    for history in histories:
        copied = copy.deepcopy(history)
        assert copied == history
        assert copied is not history
        assert all(one is other for one, other in zip(copied, history, strict=True))
        assert pickle.loads(pickle.dumps(history)) == history
    programs = [exported.run_decompositions(), plain.run_decompositions()]
    texts = [
        [_without_numbers(n.meta.get("from_node", [])) for n in program.graph.nodes]
        for program in programs
    ]
    assert texts[0] == texts[1]


def _without_numbers(history: list[torch.fx.traceback.NodeSource]) -> list[object]:
    """Names and passes of a history; graphs are numbered anew in each process."""
    return [(one.name, one.pass_name, _without_numbers(one.from_node)) for one in history]
