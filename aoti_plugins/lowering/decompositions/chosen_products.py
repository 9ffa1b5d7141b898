"""The operator ``aoti_plugins::chosen_products``: rows times matrices that were chosen for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OpOverload

from aoti_plugins.lowering.decompositions.row_groups import are_few, products_of_groups, wide_sums


def _products(rows: Tensor, numbers: Tensor, matrices: Tensor) -> Tensor:
    """Each row times the transpose of a matrix, in plain PyTorch, of which code is generated.

    Args:
        rows: ``[n, k]``.
        numbers: ``[n]``, integers: which matrix; below 0 from the end.
        matrices: ``[count, m, k]``.

    Returns:
        ``[n, m]``, of the dtype of ``rows``.
    """
    if are_few(rows, matrices):
        return wide_sums(rows[:, None, :], matrices[numbers], 2)
    count = matrices.size(0)
    numbers = torch.where(numbers < 0, numbers + count, numbers)
    order = torch.argsort(numbers, stable=True)
    chosen = numbers[:, None] == torch.arange(count, device=numbers.device)
    found = products_of_groups(rows[order], matrices.mT, chosen.sum(0).cumsum(0))
    return found[torch.argsort(order)]


chosen_products = torch.library.custom_op(
    "aoti_plugins::chosen_products", _products, mutates_args=()
)


@chosen_products.register_fake
def _(rows, numbers, matrices):  # type: ignore[no-untyped-def]
    del numbers
    return rows.new_empty((rows.size(0), matrices.size(1)))


DECOMPOSITIONS: Mapping[OpOverload, Callable[..., Tensor]] = {
    torch.ops.aoti_plugins.chosen_products.default: _products
}
"""For all devices, where none of their kernels took the op before."""
