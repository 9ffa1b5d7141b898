"""Graph passes are ordered by their constraints, and otherwise stay where they were."""

from __future__ import annotations

from graphlib import CycleError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoti_plugins.plugin_system.ordering import order_passes
from aoti_plugins.types import GraphPass


def make(name: str, before: str = "", after: str = "") -> GraphPass:
    return GraphPass(name, lambda program: None, tuple(before), tuple(after))


def order(*passes: GraphPass) -> str:
    return "".join(graph_pass.name for graph_pass in order_passes(passes))


def test_without_constraints_nothing_moves() -> None:
    assert order(make("c"), make("a"), make("b")) == "cab"


def test_before_and_after() -> None:
    assert order(make("a", after="c"), make("b"), make("c")) == "bca"
    assert order(make("a"), make("b"), make("c", before="a")) == "bca"


def test_unknown_names_are_ignored() -> None:
    assert order(make("a", after="x"), make("b", before="y")) == "ab"


def test_no_passes() -> None:
    assert order_passes([]) == []


def test_cycle() -> None:
    with pytest.raises(CycleError) as caught:
        order(make("a", before="b"), make("b", before="c"), make("c", before="a"), make("d"))
    cycle = caught.value.args[1]
    assert cycle[0] == cycle[-1]
    assert set(cycle) == set("abc")


@given(st.permutations("abcdefg"), st.permutations("abcdefg"), st.data())
def test_every_constraint_holds(names: list[str], truth: list[str], data: st.DataObject) -> None:
    passes = []
    for name in names:
        position = truth.index(name)
        before = data.draw(st.lists(st.sampled_from([*truth[position + 1 :], "x"]), unique=True))
        after = data.draw(st.lists(st.sampled_from([*truth[:position], "y"]), unique=True))
        passes.append(make(name, "".join(before), "".join(after)))
    result = order(*passes)
    assert sorted(result) == sorted(names)
    for graph_pass in passes:
        here = result.index(graph_pass.name)
        assert all(result.index(name) > here for name in graph_pass.before if name != "x")
        assert all(result.index(name) < here for name in graph_pass.after if name != "y")
