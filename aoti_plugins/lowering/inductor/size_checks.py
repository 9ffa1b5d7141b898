"""Check sizes of inputs that follow from other sizes.

Where one dynamic size occurs in several inputs (``x`` is ``[n, m]``, ``y`` is ``[m, k]``),
generated code reads it from one of them and trusts the others: with inputs that do not go together
it would read beyond their ends. The delegate knows the bounds of each size, not what joins them; so
the code gets a comparison for every such size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.codegen.wrapper.PythonWrapperCodegen.codegen_inputs",
    why="Inputs whose sizes do not go together would be read beyond their ends.",
    until="Inductor's wrapper compares them",
)
def size_checks(original: Any, wrapper: Any) -> None:
    """Compare the sizes at the start of all code that is generated in the block."""
    original(wrapper)
    for index, name, dim, size in _following_sizes(wrapper.get_graph_inputs()):
        expected = wrapper.codegen_sizevar(size)
        wrapper.prefix.splice(_CHECK.format(index=index, name=name, dim=dim, expected=expected))


def _following_sizes(inputs: dict[str, Any]) -> Iterator[tuple[int, str, int, sympy.Expr]]:
    """Sizes that some other input decides: its index and name, the dimension, the size."""
    known = {value for value in inputs.values() if isinstance(value, sympy.Expr)}
    for index, (name, value) in enumerate(inputs.items()):
        sizes = value.get_size() if hasattr(value, "get_size") else ()
        for dim, size in enumerate(sizes):
            if not isinstance(size, sympy.Expr) or size.is_number:
                continue
            if size in known or not size.is_Symbol:
                yield index, name, dim, size
            known.add(size)


_CHECK = """
if ({name}.sizes()[{dim}] != {expected}) {{
    throw std::runtime_error(
        "input {index} has size " + std::to_string({name}.sizes()[{dim}]) +
        " in dim {dim}, expected " + std::to_string({expected}) +
        ", which follows from the sizes of other inputs");
}}
"""
