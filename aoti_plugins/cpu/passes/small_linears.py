"""Products with weights of 4 and 8 bits become one op, which reads them as they are."""

from __future__ import annotations

from torch.export import ExportedProgram

from aoti_plugins.lowering.small_weights.linears import replace_products


def small_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::small_linear``, in place; expects ATen ops.

    Where rows were made 8-bit numbers before, these are multiplied.
    """
    replace_products(program, takes_numbers=True)
