"""Tensor parallelism for plain modules: this rank's parts of weights, and collectives around them.

The plan is in the words of ``torch.distributed.tensor.parallel`` and of transformers'
``base_model_tp_plan``. Unlike these, the weights stay plain tensors, so that ``torch.export`` takes
the module and torchao can quantise it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aoti_plugins.errors import LoweringError
from aoti_plugins.parallel.groups import Group
from aoti_plugins.parallel.ops import Reduction, all_gather, all_reduce


def parallelize(module: nn.Module, plan: Mapping[str, str], rank: int, world_size: int) -> None:
    """Leave a module its rank's part of the weights, in place, and let it talk to the others.

    Args:
        module: with all weights. Parts are views of them where they can be.
        plan: what becomes of modules and parameters, by their names, in which ``*`` stands for one
            part between dots:

            - ``"colwise"``: a linear layer gives a part of its outputs. Of a parameter
              ``[..., n, k]``: a part of n.
            - ``"rowwise"``: a linear layer gets a part of its inputs; results are added up over
              ranks, then the bias. Of a parameter: a part of k. An embedding
              (also ``"embedding_rowwise"``) has a part of the rows, and results are added up.
            - ``"colwise_gather_output"``: as colwise, and the outputs are put together again.
            - ``"rowwise_split_input"``: as rowwise, of inputs that are whole.
            - ``"packed_colwise"``: a parameter ``[..., 2 * n, k]`` that is two of ``[..., n, k]``.
            - ``"moe_tp_experts"``: what a module gives is added up over ranks.
            - ``"replicated"``, or a name that begins so: nothing.
        rank: whose part it is.
        world_size: how many ranks there are.

    Raises:
        LoweringError: a name that stands for nothing, a word that is not in the list, or sizes that
            cannot be divided.
    """
    if not 0 <= rank < world_size:
        raise LoweringError(f"ranks are 0 to {world_size - 1}; found {rank}")
    if world_size == 1:
        return
    modules = dict(module.named_modules())
    parameters = dict(module.named_parameters())
    shards = _Shards(rank, Group(world_size, world_size, 1))
    for pattern, style in plan.items():
        names = names_like(pattern, {**modules, **parameters})
        if not names:
            raise LoweringError(f"the plan names {pattern!r}, and the module has nothing like it")
        for name in names:
            if style.startswith("replicated"):
                continue
            is_parameter = name in parameters
            found = module.get_parameter(name) if is_parameter else modules[name]
            known = _OF_PARAMETERS if is_parameter else _of_module(found)
            if style not in known:
                raise LoweringError(
                    f"the plan wants {style!r} for {name!r}, a {type(found).__name__}; there are: "
                    f"{', '.join(sorted(known)) or 'none'}"
                )
            part = known[style](shards, found, repr(name))
            if is_parameter:
                owner, _, leaf = name.rpartition(".")
                setattr(module.get_submodule(owner), leaf, part)


def names_like(pattern: str, known: Iterable[str]) -> list[str]:
    """The names that an entry of a plan stands for.

    Args:
        pattern: a name, in which ``*`` stands for one part between dots.
        known: names of modules and parameters.
    """
    expression = re.compile(r"[^.]+".join(map(re.escape, pattern.split("*"))))
    return [name for name in known if expression.fullmatch(name)]


@dataclass(frozen=True)
class _Shards:
    """One rank's parts."""

    rank: int
    group: Group

    def part(self, value: Tensor, dim: int, what: str) -> nn.Parameter:
        """This rank's part along a dim."""
        size, ranks = value.size(dim), self.group.size
        if size % ranks:
            raise LoweringError(
                f"{what} is {list(value.shape)}, and its dim of {size} cannot be divided among "
                f"{ranks} ranks"
            )
        part = value.detach().narrow(dim, self.rank * (size // ranks), size // ranks)
        return nn.Parameter(part.contiguous(), requires_grad=False)

    def total(self, x: Tensor) -> Tensor:
        """The sum over ranks."""
        return all_reduce(x, int(Reduction.SUM), *self.group.arguments())

    def together(self, x: Tensor) -> Tensor:
        """The last dims of all ranks, one behind the other."""
        rows = all_gather(x.unsqueeze(0), *self.group.arguments())
        return rows.movedim(0, -2).flatten(-2)


def _colwise(shards: _Shards, layer: nn.Linear, what: str) -> None:
    layer.weight = shards.part(layer.weight, 0, f"the weight of {what}")
    if layer.bias is not None:
        layer.bias = shards.part(layer.bias, 0, f"the bias of {what}")
    layer.out_features //= shards.group.size


def _colwise_gathered(shards: _Shards, layer: nn.Linear, what: str) -> None:
    _colwise(shards, layer, what)
    layer.register_forward_hook(lambda module, args, found: shards.together(found))


def _rowwise(shards: _Shards, layer: nn.Linear, what: str) -> None:
    layer.weight = shards.part(layer.weight, 1, f"the weight of {what}")
    layer.in_features //= shards.group.size
    bias, layer.bias = layer.bias, None
    _summed(shards, layer, what)
    if bias is not None:
        layer.register_parameter("bias_of_total", bias)
        layer.register_forward_hook(lambda module, args, found: found + module.bias_of_total)


def _rowwise_split(shards: _Shards, layer: nn.Linear, what: str) -> None:
    _rowwise(shards, layer, what)
    layer.register_buffer("rank", torch.tensor([shards.rank]), persistent=True)

    def split(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        parts = args[0].unflatten(-1, (shards.group.size, -1))
        return (parts.index_select(-2, module.rank).squeeze(-2), *args[1:])

    layer.register_forward_pre_hook(split)


def _embedding_rows(shards: _Shards, layer: nn.Embedding, what: str) -> None:
    """A row that another rank has is zeros here, one more row, so that the sum is the row.

    One that no rank has is out of range on all of them.
    """
    total = layer.num_embeddings
    rows = layer.num_embeddings // shards.group.size
    own = shards.part(layer.weight, 0, f"the weight of {what}")
    zeros = own.new_zeros(1, own.size(1))
    layer.weight = nn.Parameter(torch.cat((own, zeros)), requires_grad=False)
    layer.num_embeddings = rows + 1
    layer.padding_idx = None
    layer.register_buffer("first_row", torch.tensor([shards.rank * rows]), persistent=True)

    def place(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        found = args[0] - module.first_row
        is_here = (found >= 0) & (found < rows)
        elsewhere = torch.where((args[0] >= 0) & (args[0] < total), rows, rows + 1)
        return (torch.where(is_here, found, elsewhere), *args[1:])

    layer.register_forward_pre_hook(place)
    _summed(shards, layer, what)


def _summed(shards: _Shards, module: nn.Module, what: str) -> None:
    del what
    module.register_forward_hook(lambda module, args, found: shards.total(found))


def _packed(shards: _Shards, value: Tensor, what: str) -> nn.Parameter:
    if value.size(-2) % 2:
        raise LoweringError(f"{what} is {list(value.shape)}, which is not two in one")
    parts = [shards.part(half, -2, what) for half in value.chunk(2, -2)]
    return nn.Parameter(torch.cat(parts, -2), requires_grad=False)


def _of_module(module: Any) -> Mapping[str, Callable[..., Any]]:
    if isinstance(module, nn.Linear):
        return _OF_LINEAR
    return _OF_EMBEDDING if isinstance(module, nn.Embedding) else _OF_MODULES


_OF_MODULES: dict[str, Callable[..., None]] = {"moe_tp_experts": _summed}
_OF_EMBEDDING: dict[str, Callable[..., None]] = {
    "rowwise": _embedding_rows,
    "embedding_rowwise": _embedding_rows,
}
_OF_LINEAR: dict[str, Callable[..., None]] = {
    "colwise": _colwise,
    "rowwise": _rowwise,
    "colwise_gather_output": _colwise_gathered,
    "rowwise_split_input": _rowwise_split,
}
_OF_PARAMETERS: dict[str, Callable[..., nn.Parameter]] = {
    "colwise": lambda shards, value, what: shards.part(value, -2, what),
    "rowwise": lambda shards, value, what: shards.part(value, -1, what),
    "packed_colwise": _packed,
}
