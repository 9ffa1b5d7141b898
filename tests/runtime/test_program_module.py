"""Programs that are called like the modules that were exported."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from filelock import FileLock
from structured_models import Boxes, Pair, Scores, Structured, Writer
from torch.export import Dim
from torch.utils import _pytree as pytree

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.lowering import interfaces
from aoti_plugins.runtime import Program, ProgramModule

BATCH = Dim("batch", max=8)
SHAPES = {
    "x": {0: BATCH},
    "batch": {"bias": [None, None]},
    "mask": {0: BATCH},
    "scale": None,
    "mode": None,
}


@pytest.fixture(scope="module")
def model() -> Structured:
    torch.manual_seed(0)
    return Structured().eval()


def lowered(module: torch.nn.Module, args: Any, kwargs: Any = None, **options: Any) -> bytes:
    exported = torch.export.export(module, args, kwargs, **options)
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    return bytes(edge.to_executorch().buffer)


@pytest.fixture(scope="module")
def path(model: Structured, shared_dir: Path) -> Path:
    """The structured model as a program, lowered once per run."""
    path = shared_dir / "structured.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            path.write_bytes(lowered(model, *model.example(), dynamic_shapes=SHAPES))
    return path


@pytest.fixture
def program(path: Path) -> Any:
    with Program(path) as program:
        yield program


@pytest.fixture
def module(program: Program) -> ProgramModule:
    return program.module()


def arguments(rows: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    batch = {"bias": [torch.arange(3.0), None]}
    mask = torch.arange(rows * 3).reshape(rows, 3) % 2 == 0
    return (torch.randn(rows, 4), batch), {"mask": mask, "scale": 2.0, "mode": "sum"}


def check(found: Any, expected: Any) -> None:
    """The same structure, with the same values up to rounding."""
    assert pytree.tree_structure(found) == pytree.tree_structure(expected)
    for one, other in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_results_are_the_modules(module: ProgramModule, model: Structured, rows: int) -> None:
    args, kwargs = arguments(rows)
    found, expected = module(*args, **kwargs), model(*args, **kwargs)
    check(found, expected)
    assert isinstance(found["scores"], Scores)
    assert isinstance(found["boxes"], Boxes)
    assert isinstance(found["range"], Pair)
    assert found["boxes"].corners[1] == 2
    assert found["rest"][0] is None


def test_arguments_come_by_name_and_constants_not_at_all(
    module: ProgramModule, model: Structured
) -> None:
    (x, batch), kwargs = arguments(2)
    expected = model(x, batch, **kwargs)
    check(module(batch=batch, x=x, mask=kwargs["mask"]), expected)
    assert module.argument_names == ("x", "batch", "mask", "scale", "mode")
    assert "called with (x, batch, mask, scale, mode)" in repr(module)


def test_wrong_arguments(module: ProgramModule) -> None:
    (x, batch), kwargs = arguments(2)
    for args, changes, message in (
        ((x, batch), {"scale": 3.0}, "scale is 3.0, but the model was exported with 2.0"),
        ((x, batch), {"mode": "mean"}, "mode is 'mean', but the model was exported with 'sum'"),
        ((x,), {}, r"takes x, batch, mask, scale, mode. missing: batch"),
        ((x, batch), {"msk": x}, r"'msk' is no argument .* \(did you mean 'mask'\?\)"),
        ((x, {"bias": batch["bias"][0]}), {}, r"batch\['bias'\] has another structure"),
        ((x.double(), batch), {}, r"^input 0 \(x\) of method 'forward': found float64"),
        ((x, batch), {"mask": None}, r"^input 3 \(mask\) of method 'forward': found None"),
    ):
        with pytest.raises(ProgramError, match=message):
            module(*args, **{**kwargs, **changes})


def test_numpy(module: ProgramModule, model: Structured) -> None:
    (x, batch), kwargs = arguments(2)
    expected = model(x, batch, **kwargs)
    bias = [batch["bias"][0].numpy(), None]
    found = module(x.numpy(), {"bias": bias}, mask=kwargs["mask"].numpy())
    assert isinstance(found["scores"].logits, numpy.ndarray)
    numpy.testing.assert_allclose(
        found["scores"].logits, expected["scores"].logits.detach().numpy(), rtol=1e-5
    )


def test_plain_calls_are_as_they_were(program: Program, module: ProgramModule) -> None:
    (x, batch), kwargs = arguments(2)
    structured = module(x, batch, **kwargs)
    inputs = (x, batch["bias"][0], None, kwargs["mask"], 2.0, None)
    found = program(*inputs)
    assert isinstance(found, tuple)
    assert len(found) == 7
    torch.testing.assert_close(found[0], structured["scores"].logits)
    named = program(*inputs[:3], mask=kwargs["mask"], scale=2.0, mode=None)
    torch.testing.assert_close(named[0], found[0])
    with pytest.raises(ProgramError, match=r"'mask' is given twice, by position and by name"):
        program(*inputs, mask=kwargs["mask"])
    with pytest.raises(ProgramError, match=r"'maks' is no argument.*missing: mask, scale, mode"):
        program(*inputs[:3], maks=kwargs["mask"])


def test_names_and_bounds_are_shown(program: Program, path: Path) -> None:
    method = program.method()
    assert [info.name for info in method.inputs] == [
        "x",
        "batch['bias'][0]",
        "batch['bias'][1]",
        "mask",
        "scale",
        "mode",
    ]
    assert method.inputs[0].bounds == ((0, 8), (4, 4))
    assert method.outputs[0].bounds == ((0, 8), (3, 3))
    assert str(method.inputs[0]) == "float32[0..8, 4]"
    assert repr(program) == (
        f"<program {str(path)!r}: forward(x: float32[0..8, 4], batch['bias'][0]: float32[3], "
        "batch['bias'][1]: None, mask: bool[0..8, 3], scale: 2.0, mode: 'sum') -> "
        "(float32[0..8, 3], float32[0..8], 2, float32[0..8], float32[0..8], None, "
        "float32[0..8, 3])>"
    )
    program.close()
    assert repr(program) == f"<program {str(path)!r}: forward, closed>"


def test_bounds_are_those_of_the_export() -> None:
    shapes = {"input": {0: Dim("rows", min=4, max=16)}}
    linear = torch.nn.Linear(4, 3)
    program = Program(lowered(linear, (torch.ones(6, 4),), dynamic_shapes=shapes))
    assert str(program.method().inputs[0]) == "float32[4..16, 4]"
    with pytest.raises(ProgramError, match="4"):
        program(torch.ones(3, 4))
    with pytest.raises(ProgramError, match=r"expected at most 16 in dimension 0"):
        program(torch.ones(17, 4))


WITHOUT_CLASSES = """
    import sys, numpy
    from aoti_plugins.runtime import Program

    assert "torch" not in sys.modules
    module = Program(sys.argv[1]).module()
    x, bias, mask = numpy.ones((2, 4), "f"), numpy.ones(3, "f"), numpy.zeros((2, 3), bool)
    found = module(x, {"bias": [bias, None]}, mask=mask)
    assert "torch" not in sys.modules
    print(found["scores"].logits.shape, found["boxes"].corners[0].shape, found["boxes"].labels)
    print(found["range"].low.shape, type(found["range"]).__name__, type(found["boxes"]).__name__)
"""


def test_without_torch_and_without_the_classes(run_python: Callable[..., str], path: Path) -> None:
    text = run_python(WITHOUT_CLASSES, path, PYTHONPATH="", AOTI_PLUGINS_LOG="error")
    assert text.splitlines() == ["(2, 3) (2,) None", "(2,) Pair SimpleNamespace"]


def test_classes_that_cannot_be_had_are_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for one in (Scores, Boxes, Pair):  # as in a process that does not know them
        name = pytree.SUPPORTED_SERIALIZED_TYPES[one].serialized_type_name
        monkeypatch.delitem(pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, name)
    monkeypatch.setitem(sys.modules, "structured_models", None)
    args, kwargs = arguments(2)
    found = Program(path).module()(*args, **kwargs)
    assert isinstance(found["boxes"], SimpleNamespace)
    warnings = [record.getMessage() for record in caplog.records]
    assert [text.partition(", which")[0].rpartition(" ")[2] for text in warnings] == [
        "structured_models.Scores",
        "vision.Boxes",
        "structured_models.Pair",
    ]
    given = {"vision.Boxes": Boxes}
    assert isinstance(Program(path).module(classes=given)(*args, **kwargs)["boxes"], Boxes)
    monkeypatch.undo()
    found = Program(path).module()(*args, **kwargs)
    assert isinstance(found["boxes"], Boxes)


def test_a_program_that_does_not_say_its_names(
    model: Structured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was lowered before names were noted: by position, with structure."""
    monkeypatch.setattr(interfaces, "described", lambda program: b"")
    args, kwargs = model.example()
    program = Program(lowered(model, args, kwargs))
    assert repr(program).endswith(": forward>")
    assert program.method().inputs[0].name == ""
    assert str(program.method().inputs[0]) == "float32[2, 4]"
    module = program.module()
    assert module.argument_names == ("", "", "mask", "scale", "mode")
    # The constant text is not known, and the runtime has nothing for it.
    check(module(*args, mask=kwargs["mask"], scale=2.0, mode=None), model(*args, **kwargs))
    x, batch = args
    with pytest.raises(ProgramError, match=r"'x' is no argument"):
        module(x=x, batch=batch, **kwargs)
    with pytest.raises(ProgramError, match="does not say the names of the inputs of method 'forw"):
        program(x, batch["bias"][0], None, mask=kwargs["mask"], scale=2.0, mode=None)


def test_a_method_without_a_delegate(model: Structured) -> None:
    args, kwargs = model.example()
    edge = to_edge_transform_and_lower(torch.export.export(model, args, kwargs))
    program = Program(edge.to_executorch().buffer)
    check(program.module()(*args, **{**kwargs, "mode": None}), model(*args, **kwargs))


def test_methods_and_constant_methods() -> None:
    linear, conv = torch.nn.Linear(4, 3), torch.nn.ReLU()
    x = torch.randn(2, 4)
    edge = to_edge_transform_and_lower(
        {"first": torch.export.export(linear, (x,)), "second": torch.export.export(conv, (x,))},
        partitioner=[CpuPartitioner()],
        constant_methods={"sizes": [1, 2], "name": "it"},
    )
    program = Program(edge.to_executorch().buffer)
    torch.testing.assert_close(program.module("first")(input=x), linear(x))
    torch.testing.assert_close(program.module("second")(x), conv(x))
    assert program.module("sizes")() == [1, 2]
    assert program.module("name")() == "it"
    with pytest.raises(ProgramError, match=r"has no method 'third'"):
        program.module("third")
    with pytest.raises(ProgramError, match=r"has no method 'forward'"):
        program.module()


@pytest.fixture(scope="module")
def writer() -> bytes:
    return lowered(Writer(), (torch.ones(2), torch.ones(2), torch.ones(2)))


def test_torch_tensors_are_written_to(writer: bytes) -> None:
    x, first, second = torch.ones(2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    result = Program(writer).module()(first, x, second)
    torch.testing.assert_close(result, torch.full((2,), 2.0))
    assert (first.tolist(), second.tolist()) == ([2, 3], [6, 8])


def test_numpy_arrays_are_written_to(writer: bytes) -> None:
    first, x, second = numpy.float32([1, 2]), numpy.ones(2, "f"), numpy.float32([3, 4])
    Program(writer).module()(first, x, second)
    assert (first.tolist(), second.tolist()) == ([2, 3], [6, 8])
    first.flags.writeable = False
    with pytest.raises(ProgramError, match="it writes to first, and the new value cannot be"):
        Program(writer).module()(first, x, second)


def test_plain_calls_return_the_new_values(writer: bytes) -> None:
    first, x, second = torch.tensor([1.0, 2.0]), torch.ones(2), torch.tensor([3.0, 4.0])
    results = Program(writer)(first, x, second)
    assert [one.tolist() for one in results] == [[2, 3], [6, 8], [2, 2]]
    assert first.tolist() == [1, 2]


def test_inputs_that_are_written_to_and_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "described", lambda program: b"")
    data = lowered(Writer(), (torch.ones(2), torch.ones(2), torch.ones(2)))
    with pytest.raises(ProgramError, match=r"has 3 outputs, 1 of which are the exported modul"):
        Program(data).module()


def test_views(program: Program) -> None:
    args, kwargs = arguments(2)
    module = program.module(copy=False)
    first = module(*args, **kwargs)["scores"].logits
    before = first.clone()
    module(*args, **{**kwargs, "mask": torch.zeros(2, 3, dtype=torch.bool)})
    assert not torch.equal(first, before)


def test_a_damaged_interface(path: Path) -> None:
    data = path.read_bytes()
    at = data.index(b'{"version":1,"parameters"')
    damaged = data[:at] + b"[" + data[at + 1 :]
    program = Program(damaged)
    assert repr(program).endswith(": forward>")
    with pytest.raises(ProgramError, match=r"method 'forward' of the .* is damaged"):
        program.method()
    newer = data[:at] + data[at:].replace(b'"version":1', b'"version":9', 1)
    assert Program(newer).method().inputs[0].name == ""


def test_a_named_tuple_without_a_name_is_executorchs_to_refuse() -> None:
    nameless = namedtuple("nameless", ("a", "b"))

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return nameless(x + 1, x + 2)

    exported = torch.export.export(Model(), (torch.ones(2),))
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    with pytest.raises(NotImplementedError, match="nameless"):
        edge.to_executorch()


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # of torch.export.load
def test_saved_exports_keep_their_names(tmp_path: Path, model: Structured) -> None:
    """Also through the file that ``aoti-plugins lower`` reads."""
    linear = torch.nn.Linear(4, 3)
    file = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(linear, (torch.ones(2, 4),)), file)
    exported = torch.export.load(file)
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    edge.to_executorch().save(str(tmp_path / "linear.pte"))
    x = torch.randn(2, 4)
    torch.testing.assert_close(Program(tmp_path / "linear.pte").module()(input=x), linear(x))
