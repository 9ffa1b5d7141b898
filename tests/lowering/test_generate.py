"""Generation of one graph, without what is around it."""

from __future__ import annotations

import contextlib
import itertools
import warnings

import pytest
import sympy
import torch
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.utils import IndentedBuffer
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis, ValueRanges

from aoti_plugins.lowering.inductor.array_names import steady_array_names
from aoti_plugins.lowering.inductor.generate import generation
from aoti_plugins.lowering.inductor.known_truths import known_truths


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def warn(module: str) -> None:
    warnings.warn_explicit("advice", UserWarning, "file.py", 1, module=module)


def test_where_warnings_are_errors_advice_of_inductor_is_none() -> None:
    inputs = (torch.ones(2),)
    module = torch.export.export(Double(), inputs).module()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with generation(module, inputs, {}, contextlib.nullcontext()):
            warn("torch._inductor.lowering")
            with pytest.raises(UserWarning, match="advice"):
                warn("somebody.else")
        with pytest.raises(UserWarning, match="advice"):
            warn("torch._inductor.lowering")


def test_arrays_are_declared_wherever_they_are_used() -> None:
    """Places that are gone, and whose address others have, were taken for these."""
    wrapper = CppWrapperCpu.__new__(CppWrapperCpu)
    wrapper.codegen_int_array_var_cache = {}
    wrapper._int_array_writeline_targets = []  # of PyTorch from 2.15 on
    wrapper.declared_int_array_vars = OrderedSet()
    wrapper.int_array_id = itertools.count()
    with steady_array_names():
        for _ in range(20):
            place = IndentedBuffer()
            names = {wrapper.codegen_int_array_var("{1L}", place.writeline) for _ in range(3)}
            (name,) = names
            assert place.getvalue().count(f"{name}[] = {{1L}};") == 1
            del place


def test_truth_values_that_are_known_are_compared() -> None:
    """As for ``mask != (mask > 1)`` where all of a mask was set to true."""
    true, false, unknown = (
        ValueRanges.wrap(sympy.true),
        ValueRanges.wrap(sympy.false),
        ValueRanges.unknown_bool(),
    )
    with known_truths():
        assert SymPyValueRangeAnalysis.ne(true, false) == true
        assert SymPyValueRangeAnalysis.eq(true, true) == true
        assert SymPyValueRangeAnalysis.eq(false, unknown) == unknown
        assert SymPyValueRangeAnalysis.eq(sympy.Integer(1), sympy.Integer(2)) == false
