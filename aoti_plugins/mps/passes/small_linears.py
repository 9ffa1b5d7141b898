"""Products with weights of 4 and 8 bits become one op, which reads them as they are."""

from __future__ import annotations

from torch.export import ExportedProgram

from aoti_plugins.lowering.small_weights.linears import replace_products
from aoti_plugins.lowering.small_weights.products import Product


def small_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::small_linear``, in place; expects ATen ops.

    Those whose scales and zeros have one dtype, and whose bias has that of the rows.
    """
    replace_products(program, takes_numbers=False, fits=_fits)


def _fits(product: Product) -> bool:
    x, weight, bias = product
    if bias is not None and bias.meta["val"].dtype != x.meta["val"].dtype:
        return False
    return weight.zero is None or weight.zero.dtype == weight.scale.dtype
