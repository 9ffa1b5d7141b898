"""Values between Python and the C structs, without a program."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy
import pytest
import torch

from aoti_plugins.dtypes import BY_NAME
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import _dlpack, _outputs
from aoti_plugins.runtime._inputs import BORROWED, CUDA, NEUTRAL, NUMPY, TORCH, InputSlot
from aoti_plugins.runtime._outputs import OutputSlot, numpy_dtype
from aoti_plugins.runtime._runner import Tag, Value
from aoti_plugins.runtime.method import Method
from aoti_plugins.runtime.specs import ValueInfo, read_i64


def slot_for(info: ValueInfo) -> tuple[InputSlot, Value, list[object]]:
    value, kept = Value(), []  # type: tuple[Value, list[object]]
    code = BY_NAME[info.dtype].code if info.dtype else 255
    return InputSlot(value, 2, info, code, "forward", kept), value, kept


def test_struct_layout() -> None:
    """Must match aotip_value in runner.h."""
    offsets = {name: getattr(Value, name).offset for name, _ in Value._fields_}
    assert offsets == {
        "tag": 0,
        "dtype": 4,
        "ndim": 8,
        "device_type": 12,
        "sizes": 16,
        "strides": 24,
        "data": 32,
        "int_value": 40,
        "double_value": 48,
        "nbytes": 56,
    }
    assert ctypes.sizeof(Value) == 64


@pytest.mark.parametrize(
    ("kind", "value", "field", "stored"),
    [
        ("int", -7, "int_value", -7),
        ("double", 1.5, "double_value", 1.5),
        ("double", 3, "double_value", 3.0),
        ("bool", True, "int_value", 1),
    ],
)
def test_scalars_go_in(kind: str, value: Any, field: str, stored: Any) -> None:
    slot, struct, _ = slot_for(ValueInfo(kind))
    assert slot.bind(value) == NEUTRAL
    assert struct.tag == Tag[kind.upper()]
    assert getattr(struct, field) == stored


def test_none_goes_in() -> None:
    slot, struct, _ = slot_for(ValueInfo("none"))
    struct.tag = Tag.OTHER
    slot.bind(None)
    assert struct.tag == Tag.NONE


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("int", 1.0, "input 2 of method 'forward': found a float, expected int"),
        ("int", True, "found a bool, expected int"),
        ("int", 2**63, "9223372036854775808 does not fit into 64 bits"),
        ("double", "1", "found a str, expected double"),
        ("double", False, "found a bool, expected double"),
        ("bool", 1, "found an int, expected bool"),
        ("none", 0, "found an int, expected none"),
        ("other", 0, "found an int, expected other"),
    ],
)
def test_scalars_are_checked(kind: str, value: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        slot_for(ValueInfo(kind))[0].bind(value)


def test_dtypes_go_in() -> None:
    for name in BY_NAME:
        tensor = torch.zeros(3, dtype=getattr(torch, name))
        slot, struct, kept = slot_for(ValueInfo("tensor", name, (3,)))
        assert slot.bind(tensor) == TORCH
        assert struct.data == tensor.data_ptr()
        assert read_i64(struct.sizes, 1) == (3,)
        assert kept == []


def test_numpy_dtypes_go_in() -> None:
    import ml_dtypes

    for name in BY_NAME:
        dtype = getattr(numpy, name, None) or getattr(ml_dtypes, name, numpy.bool_)
        array = numpy.zeros(3, dtype)
        slot, struct, _ = slot_for(ValueInfo("tensor", name, (3,)))
        assert slot.bind(array) == NUMPY, name
        assert struct.data == array.ctypes.data


def test_a_smaller_shape_is_described_anew() -> None:
    slot, struct, _ = slot_for(ValueInfo("tensor", "float32", (4, 8)))
    for shape in ((4, 8), (2, 8), (4, 3), (4, 8)):
        slot.bind(torch.zeros(shape))
        assert read_i64(struct.sizes, 2) == shape
        assert read_i64(struct.strides, 2) == (shape[1], 1)


def test_empty_tensors_go_in() -> None:
    slot, struct, _ = slot_for(ValueInfo("tensor", "float32", (4, 8)))
    slot.bind(numpy.zeros((0, 8), "f4"))
    assert read_i64(struct.sizes, 2) == (0, 8)
    slot.bind(torch.zeros(4, 0))
    assert read_i64(struct.sizes, 2) == (4, 0)


def test_what_is_copied_is_kept_for_the_call() -> None:
    slot, struct, kept = slot_for(ValueInfo("tensor", "complex64", (3,)))
    tensor = torch.tensor([1 + 2j, 3 + 4j, 5 + 6j], dtype=torch.complex64)
    slot.bind(tensor.conj())
    (resolved,) = kept
    assert struct.data == resolved.data_ptr()  # type: ignore[attr-defined]
    floats = (ctypes.c_float * 2).from_address(struct.data)
    assert list(floats) == [1.0, -2.0]


def test_dlpack_describes_every_torch_dtype() -> None:
    names = [name for name in BY_NAME if not name.startswith("float8")]
    for name in names:
        tensor = torch.zeros(2, 3, dtype=getattr(torch, name)).t()
        view = _dlpack.view(tensor, "input")
        assert view.dtype == name
        assert view.shape == (3, 2)
        assert view.strides == (1, 3)
        assert view.address == tensor.data_ptr()


class Memory:
    """An output struct over memory of its own."""

    def __init__(self, array: numpy.ndarray, dtype: str) -> None:
        self.array = array
        self.sizes = (ctypes.c_int64 * 4)(*array.shape)
        self.strides = (ctypes.c_int64 * 4)(*(step // array.itemsize for step in array.strides))
        self.value = Value(
            tag=Tag.TENSOR,
            dtype=BY_NAME[dtype].code,
            ndim=array.ndim,
            sizes=ctypes.addressof(self.sizes),
            strides=ctypes.addressof(self.strides),
            data=array.ctypes.data,
            nbytes=array.nbytes,
        )
        self.slot = OutputSlot(self.value, 1, "forward", self)


@pytest.mark.parametrize("copy", [True, False])
def test_outputs_keep_their_layout(copy: bool) -> None:
    array = numpy.arange(24, dtype="f4").reshape(2, 3, 4).transpose(0, 2, 1)
    memory = Memory(array, "float32")
    tensor, found = memory.slot.torch(copy), memory.slot.numpy(copy)
    assert tensor.stride() == (12, 1, 4)
    assert found.strides == (48, 4, 16)
    numpy.testing.assert_array_equal(tensor.numpy(), array)
    numpy.testing.assert_array_equal(found, array)
    array[0, 0, 0] = 99
    assert (tensor[0, 0, 0] == 99) is not copy
    assert (found[0, 0, 0] == 99) is not copy


def test_outputs_follow_shape_and_memory() -> None:
    memory = Memory(numpy.arange(12, dtype="f4").reshape(3, 4), "float32")
    assert memory.slot.torch(True).shape == (3, 4)
    memory.sizes[0], memory.value.nbytes = 2, 32
    assert memory.slot.torch(True).shape == (2, 4)
    assert memory.slot.numpy(True).shape == (2, 4)
    other = numpy.full((2, 4), 7, "f4")
    memory.value.data = other.ctypes.data
    assert memory.slot.torch(True).sum() == 56
    assert memory.slot.numpy(True).sum() == 56


@pytest.mark.parametrize("shape", [(), (0, 4)])
def test_outputs_without_dims_or_elements(shape: tuple[int, ...]) -> None:
    memory = Memory(numpy.full(shape, 3, "f4"), "float32")
    for copy in (True, False):
        assert memory.slot.torch(copy).shape == shape
        assert memory.slot.numpy(copy).shape == shape
    assert memory.slot.torch(True).sum() == (0 if shape else 3)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (Value(tag=Tag.INT, int_value=-5), -5),
        (Value(tag=Tag.DOUBLE, double_value=0.5), 0.5),
        (Value(tag=Tag.BOOL, int_value=1), True),
        (Value(tag=Tag.NONE), None),
    ],
)
def test_scalars_come_out(value: Value, found: Any) -> None:
    slot = OutputSlot(value, 0, "forward", None)
    assert slot.torch(True) is found or slot.torch(True) == found
    assert type(slot.numpy(True)) is type(found)


def test_other_outputs_are_refused() -> None:
    slot = OutputSlot(Value(tag=Tag.OTHER), 1, "forward", None)
    with pytest.raises(
        ProgramError, match=r"output 1 of method 'forward' is of a kind that Python"
    ):
        slot.torch(True)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hide packages from the search for a bfloat16."""

    def hide(*names: str) -> None:
        monkeypatch.setattr(_outputs, "find_spec", lambda name: None if name in names else name)
        numpy_dtype.cache_clear()

    yield hide
    numpy_dtype.cache_clear()


def test_bfloat16_needs_ml_dtypes_or_torch(without: Any) -> None:
    memory = Memory(numpy.array([0x3F80, 0x4000], "u2"), "bfloat16")
    found = memory.slot.numpy(True)
    assert found.dtype.name == "bfloat16"
    assert found.astype("f4").tolist() == [1.0, 2.0]
    without("ml_dtypes")
    tensor = memory.slot.numpy(True)
    assert tensor.dtype == torch.bfloat16
    assert tensor.tolist() == [1.0, 2.0]
    without("ml_dtypes", "torch")
    with pytest.raises(ProgramError, match=r"output 1 .* is bfloat16, .*pip install ml_dtypes"):
        memory.slot.numpy(True)


class OnGpu:
    """A tensor of some library, in memory of a GPU as it says."""

    def __init__(self) -> None:
        self.tensor = torch.zeros(4, 64)

    def __dlpack__(self, stream: int) -> Any:
        assert stream == 1, "the default stream, in whose order programs run"
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


@pytest.mark.parametrize(
    ("torch_has_gpus", "asked"), [(False, NUMPY), (True, NUMPY | CUDA | BORROWED)]
)
def test_gpu_memory_of_any_library_asks_for_outputs_there(
    torch_has_gpus: bool, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dlpack, "torch_has_gpus", lambda: torch_has_gpus)
    slot, struct, _ = slot_for(ValueInfo("tensor", "float32", (4, 64)))
    assert slot.bind(OnGpu()) == asked
    assert struct.device_type == 1


@pytest.mark.parametrize("seen", [TORCH | CUDA, NUMPY | CUDA | BORROWED])
def test_memory_of_another_library_is_read_when_a_call_returns(
    seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class DefaultStream:
        def record_event(self) -> DefaultStream:
            done.append("recorded")
            return self

        def synchronize(self) -> None:
            done.append("waited")

    monkeypatch.setattr(torch.cuda, "default_stream", lambda gpu: DefaultStream())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    method = object.__new__(Method)
    method._out_slots, method._out_infos, method._arguments = [], [], ()
    method._gpu, method._execute = torch.device("cuda", 0), lambda: done.append("sent") or 0
    assert method._execute_on_gpu(0, (), seen, True) == 0
    assert done == (["sent", "recorded", "waited"] if seen & BORROWED else ["sent"])
