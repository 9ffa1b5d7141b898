"""Parts of language models, with what stands around their products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export

WIDTH, HIDDEN = 256, 512


class Norm(nn.Module):
    """A root-mean-square norm as models of transformers write it."""

    def __init__(self, inside: bool, width: int = WIDTH) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        rows = x.float()
        rows = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (rows * self.weight).to(x.dtype) if self.inside else self.weight * rows.to(x.dtype)


class NormOfGemma(Norm):
    """Another, whose factors are one more than its weights."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.float()
        rows = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-5)
        if self.inside:
            return (rows * (1.0 + self.weight.float())).type_as(x)
        return rows.to(x.dtype) * (1 + self.weight)


class Block(nn.Module):
    """What one layer of a language model does, without attention."""

    def __init__(
        self,
        *,
        joined: bool,
        inside: bool,
        activation: nn.Module,
        bias: bool = True,
        width: int = WIDTH,
        hidden: int = HIDDEN,
    ) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.norm = Norm(inside, width)
        self.activation = activation
        if joined:
            self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        else:
            self.gate, self.up = (nn.Linear(width, hidden, bias=bias) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        if hasattr(self, "gate_up"):
            first, second = self.gate_up(normed).chunk(2, -1)
        else:
            first, second = self.gate(normed), self.up(normed)
        return x + self.down(self.activation(first) * second)


def exact_block(model: nn.Module, values_of: Callable[[Any], Tensor], **options: Any) -> Block:
    """A block of the weights that another's stand for, in float64.

    Args:
        model: the other.
        values_of: what a weight of its linear layers stands for.
        options: what it was made with.
    """
    plain = Block(**options).double()
    with torch.no_grad():
        for one, other in zip(plain.modules(), model.modules(), strict=True):
            if isinstance(one, nn.Linear):
                one.weight.copy_(values_of(other.weight))
                if other.bias is not None:
                    one.bias.copy_(other.bias)
            elif isinstance(one, Norm):
                one.weight.copy_(other.weight)
    return plain


ACTIVATIONS = {"silu": nn.SiLU(), "gelu": nn.GELU(), "gelu, tanh": nn.GELU(approximate="tanh")}


class Together(nn.Module):
    """Products of one norm's result, as query, key and value are."""

    def __init__(self, width: int, columns: tuple[int, ...], bias: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.norm = Norm(inside=False, width=width)
        self.layers = nn.ModuleList(nn.Linear(width, n, bias=bias) for n in columns)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        normed = self.norm(x)
        return tuple(layer(normed) for layer in self.layers)


class ComputedBiases(nn.Module):
    """Products of the same row whose biases the program computes."""

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.layers = nn.ModuleList(nn.Linear(width, columns) for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            nn.functional.linear(x, layer.weight, layer.bias * x[0, 0]) for layer in self.layers
        )


class LooksAlike(nn.Module):
    """Looks like a block's parts and is none of them."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.product = nn.Linear(width, width, bias=False)
        self.factors = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        rows = x.float()
        over_rows = rows * torch.rsqrt(rows.pow(2).mean(0, keepdim=True) + 1e-5)
        cubes = rows * torch.rsqrt(rows.pow(4).mean(-1, keepdim=True) + 1e-5)
        read_twice = self.product(x)
        first, second = self.product(x + 1).chunk(2, -1)
        return (
            self.product(over_rows.to(x.dtype) * self.factors),
            self.product(cubes.to(x.dtype) * self.factors),
            read_twice + x,
            read_twice,
            torch.nn.functional.silu(second) * first,
            self.product(x + 2) + x[..., :1],
            torch.add(x, self.product(x + 3), alpha=2),
        )


def as_pipeline_has_it(
    model: nn.Module, inputs: tuple[Tensor, ...], **kwargs: Any
) -> ExportedProgram:
    """An exported program of ATen ops, without what ExecuTorch does not have."""
    program = export(model, inputs, **kwargs).run_decompositions({})
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            program.graph.erase_node(node)
    return program
