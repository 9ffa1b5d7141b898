"""Changed bytes in a program's flatbuffer, or in a data file's: an error that says what is wrong.

Each change here makes a program that is a well-formed flatbuffer. ExecuTorch reads past the end of
something or aborts on most of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from support import ROOT

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

CORPUS = ROOT / "native" / "tests" / "fuzz" / "corpus"

Change = Callable[[Any], None]


def changed(name: str, change: Change) -> bytes:
    """Return a program of the corpus after a change of its tables."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    file = deserialize_pte_binary((CORPUS / "program" / f"{name}.pte").read_bytes())
    change(file.program)
    return bytes(serialize_pte_binary(file))


def values(program: Any, kind: str) -> list[Any]:
    """Return the values of one kind, in the first method."""
    found = (value.val for value in program.execution_plan[0].values)
    return [value for value in found if type(value).__name__ == kind]


def instructions(program: Any, kind: str) -> list[Any]:
    """Return the instructions of one kind, in the first method."""
    found = (each.instr_args for each in program.execution_plan[0].chains[0].instructions)
    return [each for each in found if type(each).__name__ == kind]


def set_tensor(**fields: Any) -> Change:
    """Change the first tensor, which is an input."""

    def change(program: Any) -> None:
        for name, value in fields.items():
            setattr(values(program, "Tensor")[0], name, value)

    return change


def set_plan(name: str, value: Any) -> Change:
    """Change the method."""
    return lambda program: setattr(program.execution_plan[0], name, value)


def plan_far(program: Any) -> None:
    planned = [tensor for tensor in values(program, "Tensor") if tensor.allocation_info]
    planned[0].allocation_info.memory_offset_high = 1


def plan_elsewhere(program: Any) -> None:
    planned = [tensor for tensor in values(program, "Tensor") if tensor.allocation_info]
    planned[0].allocation_info.memory_id = 9


def forget_memory(program: Any) -> None:
    plan = program.execution_plan[0]
    for index, value in enumerate(plan.values):
        if type(value.val).__name__ == "Tensor" and index not in (*plan.inputs, *plan.outputs):
            value.val.allocation_info = None
            value.val.data_buffer_idx = 0


def grow_constant(program: Any) -> None:
    constant = next(t for t in values(program, "Tensor") if t.data_buffer_idx)
    constant.sizes = [1000, *constant.sizes[1:]]


def count_constants(program: Any) -> None:
    next(t for t in values(program, "Tensor") if t.data_buffer_idx).data_buffer_idx = 99


def call_with_wrong_types(program: Any) -> None:
    call = instructions(program, "KernelCall")[0]
    plan = program.execution_plan[0]
    kinds = [type(value.val).__name__ for value in plan.values]
    call.args[0] = kinds.index("Int")


def call_with_few(program: Any) -> None:
    del instructions(program, "KernelCall")[0].args[1:]


def call_unknown_value(program: Any) -> None:
    instructions(program, "KernelCall")[0].args[0] = 1000


def call_unknown_operator(program: Any) -> None:
    instructions(program, "KernelCall")[0].op_index = 1000


def list_of_what_follows(program: Any) -> None:
    plan = program.execution_plan[0]
    values(program, "TensorList")[0].items[0] = len(plan.values) - 1


def list_of_other_things(program: Any) -> None:
    plan = program.execution_plan[0]
    kinds = [type(value.val).__name__ for value in plan.values]
    values(program, "IntList")[0].items[0] = kinds.index("Tensor")


def jump_for_ever(program: Any) -> None:
    jump = instructions(program, "JumpFalseCall")[0]
    all_of_them = [each.instr_args for each in program.execution_plan[0].chains[0].instructions]
    jump.destination_instruction = all_of_them.index(jump)


def jump_away(program: Any) -> None:
    instructions(program, "JumpFalseCall")[0].destination_instruction = 1000


def move_other_things(program: Any) -> None:
    plan = program.execution_plan[0]
    kinds = [type(value.val).__name__ for value in plan.values]
    instructions(program, "MoveCall")[0].move_from = kinds.index("Int")


REFUSED: list[tuple[str, Change, str]] = [
    ("linear", set_tensor(sizes=[2, -3]), "size -3"),
    ("linear", set_tensor(sizes=[2, 3, 4]), "3 sizes and a dim_order of 2"),
    ("linear", set_tensor(dim_order=[0, 7]), "each dim once"),
    ("linear", set_tensor(dim_order=[1, 1]), "each dim once"),
    ("linear", set_tensor(sizes=[2**31 - 1] * 2 + [2] * 2, dim_order=[0, 1, 2, 3]), "32 bits"),
    ("linear", set_plan("inputs", [1000]), "inputs is value 1000"),
    ("linear", set_plan("outputs", [-1]), "outputs is value -1"),
    ("linear", set_plan("non_const_buffer_sizes", [0, -1]), "buffer 1 has -1 bytes"),
    ("linear", set_plan("non_const_buffer_sizes", [0]), "there are 1"),
    ("linear", set_plan("operators", []), "a call of operator 0, there are 0"),
    ("linear", plan_far, "is planned at"),
    ("linear", plan_elsewhere, "planned in buffer 9"),
    ("linear", forget_memory, "that nothing has given memory"),
    ("linear", grow_constant, "a constant takes"),
    ("linear", count_constants, "a constant is number 99"),
    ("linear", call_with_wrong_types, "argument 0 of .* is an int"),
    ("linear", call_with_few, "takes . arguments, found 1"),
    ("linear", call_unknown_value, "an argument is value 1000"),
    ("linear", call_unknown_operator, "a call of operator 1000"),
    ("lists", list_of_what_follows, "in the list of tensors"),
    ("lists", list_of_other_things, "in a list of ints"),
    ("branches", jump_for_ever, "nothing between changes its condition"),
    ("branches", jump_away, "a jump to instruction 1000"),
    ("branches", move_other_things, "is moved to value"),
]


@pytest.mark.parametrize(("name", "change", "message"), REFUSED)
def test_refused(name: str, change: Change, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        Program(changed(name, change))


@pytest.mark.parametrize("path", sorted((CORPUS / "program").glob("*.pte")), ids=lambda p: p.stem)
def test_what_is_whole_loads(path: Path) -> None:
    """The programs that the changes are made to hold every type of value and instruction."""
    data = [CORPUS / "data_file" / "external.ptd"] if path.stem == "external" else []
    with Program(path, data_files=data) as program:
        assert list(program.methods) == ["forward"]


def test_assertion_of_a_kernel() -> None:
    """What ExecuTorch aborts the process for when a kernel runs is an error of the call."""

    def change(program: Any) -> None:
        size = next(op for op in program.execution_plan[0].operators if op.name == "aten::sym_size")
        index = program.execution_plan[0].operators.index(size)
        call = next(c for c in instructions(program, "KernelCall") if c.op_index == index)
        program.execution_plan[0].values[call.args[1]].val.int_val = 9

    with (
        Program(changed("linear", change)) as program,
        pytest.raises(ProgramError, match="assertion"),
    ):
        program(numpy.zeros((2, 3), numpy.float32))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(0, 0xFFFFFFFF, "root at byte 0"), (16, 1 << 40, "a flatbuffer of"), (4, 0, "identifier")],
)
def test_data_file(tmp_path: Path, at: int, value: int, message: str) -> None:
    data = bytearray((CORPUS / "data_file" / "external.ptd").read_bytes())
    struct.pack_into("<Q" if value >= 1 << 32 else "<I", data, at, value)
    path = tmp_path / "changed.ptd"
    path.write_bytes(data)
    with pytest.raises(ProgramError, match=message):
        Program(CORPUS / "program" / "external.pte", data_files=[path])
