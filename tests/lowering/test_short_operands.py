"""What Inductor says of an op that it cannot lower."""

from __future__ import annotations

import torch
from torch._inductor.exc import MissingOperatorWithoutDecomp
from torch._inductor.ir import IRNode, NoneAsConstantBuffer

from aoti_plugins.lowering.inductor.short_operands import short_operands


class Deep(IRNode):
    """A tensor whose text would hold those of all before it."""

    def __str__(self) -> str:
        raise AssertionError("nobody needs all of it")

    __repr__ = __str__

    def get_dtype(self) -> torch.dtype:
        return torch.bfloat16

    def get_size(self) -> list[int]:
        return [2, 4096]


def test_tensors_have_a_dtype_and_sizes() -> None:
    deep = Deep()
    with short_operands():
        error = MissingOperatorWithoutDecomp("acme.op", [deep, [deep, 3]], {"other": deep})
    text = "Deep(torch.bfloat16, [2, 4096])"
    lines = [f"args[0]: {text}", f"args[1]: [{text}, 3]", f"other: {text}"]
    assert str(error).splitlines() == [
        "missing lowering",
        "  target: acme.op",
        *(f"  {line}" for line in lines),
    ]


def test_what_is_no_tensor_has_its_name() -> None:
    with short_operands():
        error = MissingOperatorWithoutDecomp("acme.op", [NoneAsConstantBuffer(), None], {})
    assert str(error).splitlines()[2:] == ["  args[0]: NoneAsConstantBuffer", "  args[1]: None"]
