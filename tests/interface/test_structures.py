"""Structures of arguments and results, taken apart and put together."""

from __future__ import annotations

import dataclasses
import logging
from collections import OrderedDict, defaultdict, deque, namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.arguments import Arguments
from aoti_plugins.interface.classes import Classes
from aoti_plugins.interface.contents import ClassPlace, Interface, InterfaceValue
from aoti_plugins.interface.results import Results
from aoti_plugins.interface.structure import NAMED_TUPLE, Node, parse

Point = namedtuple("Point", ("x", "y"))


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any = None
    third: Any = None


class Box:
    """A class that only PyTorch's pytree can take apart."""

    def __init__(self, content: Any, label: str) -> None:
        self.content, self.label = content, label


pytree._register_namedtuple(Point, serialized_type_name=f"{__name__}.Point")
torch.export.register_dataclass(Pair, serialized_type_name="pairs.Pair")
pytree.register_pytree_node(
    Box,
    lambda box: ([box.content], box.label),
    lambda values, label: Box(*values, label),
    serialized_type_name="boxes.Box",
)


NAN = float("nan")


def node_of(value: Any) -> Node:
    """The structure of a value as ExecuTorch keeps it."""
    return parse(pytree.treespec_dumps(pytree.tree_structure(value), 1), "the structure")


def results(value: Any, *, classes: Classes | None = None) -> Any:
    """A value that is put together again of its parts."""
    made = Results(node_of(value), classes or Classes({}, {}), "method 'forward'")
    return made(pytree.tree_leaves(value))


def arguments(
    *args: Any, interface: Interface | None = None, classes: Classes | None = None, **kwargs: Any
) -> Arguments:
    """What takes arguments apart that are like these."""
    found = classes or Classes({}, {})
    return Arguments(node_of((args, kwargs)), interface or Interface(), found, "the method")


@pytest.mark.parametrize(
    "value",
    [
        1,
        None,
        (1, [2, {"a": 3, 4: (5,)}]),
        {},
        [],
        (),
        OrderedDict(b=1, a=2),
        defaultdict(list, a=1),
        deque([1, 2], maxlen=3),
        Point(1, [2]),
        Pair(1, None, {"a": 2}),
    ],
    ids=str,
)
def test_results_are_what_was_returned(value: Any) -> None:
    made = results(value)
    assert made == value
    assert type(made) is type(value)


def test_what_a_container_keeps() -> None:
    assert results(deque([1], maxlen=3)).maxlen == 3
    assert results(defaultdict(list, a=1))["b"] == []
    assert list(results(OrderedDict(b=1, a=2))) == ["b", "a"]


def test_a_class_of_pytree() -> None:
    made = results([Box(1, "one")])
    assert (type(made[0]), made[0].content, made[0].label) == (Box, 1, "one")


def renamed(node: Node, name: str) -> Node:
    """The structure with a class that nobody has registered."""
    if node.kind == NAMED_TUPLE:
        return Node(NAMED_TUPLE, name, node.children)
    return Node(name, node.written, node.children)


def test_classes_are_imported_from_where_they_are() -> None:
    node = renamed(node_of(Pair(1, None, 3)), "other.Pair")
    places = {"other.Pair": ClassPlace(__name__, "Pair")}
    assert Results(node, Classes({}, places), "it")([1, 3]) == Pair(1, None, 3)
    node = renamed(node_of(Point(1, 2)), f"{__name__}.Point")
    assert Results(node, Classes({}, {}), "it")([1, 2]) == Point(1, 2)


def test_classes_may_be_given() -> None:
    node = renamed(node_of(Pair(1, None, 3)), "other.Pair")
    assert Results(node, Classes({"other.Pair": Pair}, {}), "it")([1, 3]) == Pair(1, None, 3)


def test_a_class_that_pytree_knows_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    node = renamed(node_of(Pair(1, None, 4)), "other.Pair")
    monkeypatch.delitem(pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, "pairs.Pair")
    assert Results(node, Classes({"other.Pair": Pair}, {}), "it")([1, 4]) == Pair(1, None, 4)


def test_without_the_class_of_a_dataclass(caplog: pytest.LogCaptureFixture) -> None:
    node = renamed(node_of(Pair(1, None, 3)), "no_such_module.Pair")
    made = Results(node, Classes({}, {}), "method 'forward'")([1, 3])
    assert made == SimpleNamespace(first=1, second=None, third=3)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    message = record.getMessage()
    assert "method 'forward' returns a no_such_module.Pair, which cannot be had" in message
    assert "No module named 'no_such_module'" in message
    assert "module(classes={'no_such_module.Pair': ...})" in message


def test_without_the_class_of_a_named_tuple(caplog: pytest.LogCaptureFixture) -> None:
    node = renamed(node_of(Point(1, 2)), "no_such_module.Point")
    places = {"no_such_module.Point": ClassPlace("no_such_module", "Point", ("x", "y"))}
    made = Results(node, Classes({}, places), "it")([1, 2])
    assert (made.x, made[1], type(made).__name__) == (1, 2, "Point")
    assert Results(node, Classes({}, {}), "it")([1, 2]) == (1, 2)
    assert len(caplog.records) == 2


def test_without_the_class_of_something_else(caplog: pytest.LogCaptureFixture) -> None:
    node = renamed(node_of(Box(1, "one")), "no_such_module.Box")
    assert Results(node, Classes({}, {}), "it")([1]) == (1,)
    assert "come as tuples" in caplog.text


@pytest.mark.parametrize("name", ["subprocess.Popen", "os.system", "Pair"])
def test_only_what_holds_values_is_taken_for_a_class(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = renamed(node_of(Pair(1, None, 3)), name)
    assert Results(node, Classes({}, {}), "it")([1, 3]).first == 1
    assert "cannot be had" in caplog.text


def test_a_class_that_does_not_take_the_values() -> None:
    @dataclasses.dataclass
    class Other:
        fourth: int

    node = renamed(node_of(Pair(1, None, 3)), "other.Pair")
    made = Results(node, Classes({"other.Pair": Other}, {}), "method 'forward'")
    with pytest.raises(ProgramError, match=r"method 'forward' ran, but other.Pair cannot be made"):
        made([1, 3])


NAMED = Interface(
    parameters=("x", "options", "flag"),
    inputs=(
        InterfaceValue("x", "float32"),
        InterfaceValue("options['a'][0]", "float32"),
        InterfaceValue("options['a'][1]", is_constant=True),
        InterfaceValue("flag", is_constant=True, constant=True),
    ),
)


@pytest.fixture
def named() -> Arguments:
    return arguments(1, {"a": [2, None]}, flag=True, interface=NAMED)


def test_arguments_come_by_position_or_by_name(named: Arguments) -> None:
    expected = ["x", "y", None, True]
    assert named(("x", {"a": ["y", None]}), {"flag": True}) == expected
    assert named(("x",), {"flag": True, "options": {"a": ("y", None)}}) == expected
    assert named((), {"options": {"a": ("y", None)}, "x": "x"}) == expected


RIGHT = {"a": [2, None]}
LIKE = "another structure than the model was exported with: expected"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, {}, True), {}, "with 2 arguments by position, got 3; by name it takes: flag"),
        ((1,), {}, "the method takes x, options, flag. missing: options"),
        ((), {}, "missing: x, options"),
        ((1,), {"x": 1, "options": RIGHT}, "'x' is given twice, by position and by name"),
        ((1,), {"option": 1}, "'option' is no argument that it was exported with (did you mean "),
        ((1,), {"option": 1}, "(did you mean 'options'?); missing: options"),
        ((1, 2), {}, f"options has {LIKE} a dict, found 2"),
        ((1, {"b": [2, None]}), {}, f"options has {LIKE} the keys ['a'], found ['b']"),
        ((1, {**RIGHT, "b": 3}), {}, f"options has {LIKE} the keys ['a'], found ['a', 'b']"),
        ((1, {"a": [2]}), {}, f"options['a'] has {LIKE} 2 items, found 1"),
        ((1, {"a": {}}), {}, f"options['a'] has {LIKE} a list, found a dict"),
        ((1, {"a": [2, 3]}), {}, "options['a'][1] is 3, but the model was exported with None"),
        ((1, RIGHT), {"flag": False}, "flag is False, but the model was exported with True, which"),
        ((1, RIGHT), {"flag": 1}, "flag is 1, but the model was exported with True"),
    ],
)
def test_wrong_arguments(named: Arguments, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        named(args, kwargs)
    assert message in str(caught.value)


def test_a_program_without_names_takes_arguments_by_position() -> None:
    takes = arguments(1, [2], z=3)
    assert takes.names == ("", "", "z")
    assert takes((1, [2]), {"z": 3}) == [1, 2, 3]
    with pytest.raises(ProgramError, match=r"'x' is no argument .* missing: argument 0 \(by pos"):
        takes((), {"x": 1, "z": 3})
    with pytest.raises(ProgramError, match="argument 1 has another structure"):
        takes((1, 2), {"z": 3})


@pytest.mark.parametrize("value", [Point(1, 2), (1, 2), [1, 2]], ids=str)
def test_a_named_tuple_may_be_any_sequence(value: Any) -> None:
    assert arguments(Point(1, 2))((value,), {}) == [1, 2]


def test_a_dataclass_may_be_what_has_its_fields() -> None:
    takes = arguments(Pair(1, None, 3))
    for value in (Pair(1, None, 3), SimpleNamespace(first=1, third=3), {"first": 1, "third": 3}):
        assert takes((value,), {}) == [1, 3]
    with pytest.raises(ProgramError, match=r"expected no second, found some"):
        takes((Pair(1, 2, 3),), {})
    with pytest.raises(ProgramError, match=r"expected a pairs.Pair with first, third, found 5"):
        takes((5,), {})


def test_pytree_takes_its_classes_apart() -> None:
    takes = arguments(Box(1, "one"))
    assert takes((Box(2, "one"),), {}) == [2]
    with pytest.raises(ProgramError, match=r"expected a boxes.Box of one, found one of two"):
        takes((Box(2, "two"),), {})
    with pytest.raises(ProgramError, match=r"expected a boxes.Box, found 2"):
        takes((2,), {})


def test_a_class_of_pytree_that_nobody_registered() -> None:
    box = renamed(node_of(Box(1, "one")), "boxes.Other")
    node = Node("builtins.tuple", None, (Node("builtins.tuple", None, (box,)), node_of({})))
    takes = Arguments(node, Interface(), Classes({}, {}), "the method")
    with pytest.raises(ProgramError, match=r"a boxes.Other when the model was exported"):
        takes((Box(1, "one"),), {})


def test_constants_need_not_be_given() -> None:
    interface = Interface(
        parameters=("x", "pair", "mode"),
        inputs=(
            InterfaceValue("x", "float32"),
            InterfaceValue("pair[0]", is_constant=True, constant=2.0),
            InterfaceValue("pair[1]", is_constant=True, constant=NAN),
            InterfaceValue("mode", is_constant=True, constant="fast"),
        ),
    )
    takes = arguments(1, (2.0, 3.0), mode="fast", interface=interface)
    # ExecuTorch has nothing for text: the program keeps it, and the input is None.
    assert takes((1,), {})[:2] == [1, 2.0]
    assert takes((1, (2, NAN)), {"mode": "fast"})[3] is None
    with pytest.raises(ProgramError, match=r"pair\[1\] is 3.0, but .* exported with nan"):
        takes((1, (2.0, 3.0)), {})


NO_TYPE = '[1, {"type": 3, "context": null, "children_spec": []}]'


@pytest.mark.parametrize("text", ["", "[]", "[1]", "[1, {}]", NO_TYPE, "[" * 9999])
def test_a_damaged_structure(text: str) -> None:
    with pytest.raises(ProgramError, match="the structure is damaged"):
        parse(text, "the structure")


def test_a_structure_of_another_format() -> None:
    with pytest.raises(ProgramError, match="written in format 2, known is 1"):
        parse("[2, {}]", "the structure")


def test_a_structure_that_is_none_of_arguments() -> None:
    with pytest.raises(ProgramError, match="is none of arguments"):
        Arguments(node_of([1]), Interface(), Classes({}, {}), "the method")
