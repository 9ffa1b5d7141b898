"""The models of the self-test: small ones, each for a part of a device's runtime."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

_FLOAT32 = 1e-3
_HALF = 2e-2


@dataclass(frozen=True)
class Model:
    """A model with the calls to record.

    Attributes:
        description: what it is about.
        module: what is lowered; its outputs are of dtypes that numpy has.
        calls: inputs of each call; state goes from call to call.
        tolerance: relative and absolute.
        dynamic_shapes: for the export.
    """

    description: str
    module: nn.Module
    calls: list[tuple[torch.Tensor, ...]]
    tolerance: float = _FLOAT32
    dynamic_shapes: tuple[dict[int, torch.export.Dim], ...] | None = None


class _Pointwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.relu(x + y), torch.sin(x) * torch.exp(-y.abs()), (x > y) & (x > 0)


class _Reductions(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        softmax, variance = torch.softmax(x, -1), x.var(-1)
        return softmax, variance, x.argmax(-1), n.amax(-1), n.amin(), n.sum(0), n.prod(-1)


class _InDtype(nn.Module):
    """A module that computes in a dtype, between float32."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module = module.to(dtype)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x.to(self.dtype)).float()


def _mlp(dtype: torch.dtype) -> nn.Module:
    return _InDtype(nn.Sequential(nn.Linear(48, 200), nn.GELU(), nn.Linear(200, 33)), dtype)


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, groups=16),
        nn.MaxPool2d(2, 1),
        nn.ConvTranspose2d(16, 8, 3, stride=2, output_padding=1),
        nn.Flatten(2),
        nn.Conv1d(8, 4, 5, dilation=2),
    )


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.qkv = nn.Linear(64, 3 * 64, bias=False)
        self.out = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.out(attended.transpose(1, 2).flatten(2))


class _Cache(nn.Module):
    """Keys and values of earlier calls; one query against all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 24, 16))
        self.register_buffer("values", torch.zeros(1, 2, 24, 16))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        query, key, value = x.unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        mask = torch.arange(24) <= position[:, None]
        return functional.scaled_dot_product_attention(query, self.keys, self.values, mask)


class _Order(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = x.sort(-1)
        top, where = x.topk(3, -1)
        return values, indices, top, where, x.cumsum(0)


class _Indexing(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        added = torch.zeros(9, 8).index_add(0, index, x)
        spread = torch.zeros(5, 8).scatter_reduce(0, (index % 5)[:, None].expand(6, 8), x, "amax")
        return x[index % 6], added, spread


class _Rnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 20, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def _inputs(*sizes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(size) for size in sizes)


def _models() -> dict[str, Model]:
    index = torch.tensor([0, 3, 3, 8, 1, 5])
    rows = torch.export.Dim("rows", min=2, max=64)
    numbers = torch.randint(-9, 10, (5, 70))
    return {
        "pointwise": Model("elementwise kernels", _Pointwise(), [_inputs((7, 33), (7, 33))]),
        "reductions": Model(
            "sums, extremes, softmax, 64-bit integers in odd sizes",
            _Reductions(),
            [(torch.randn(6, 300), numbers), (torch.randn(6, 300), -numbers.abs() - 1)],
        ),
        "mlp": Model("matrix products", _mlp(torch.float32), [_inputs((4, 48))]),
        "mlp_float16": Model("in float16", _mlp(torch.float16), [_inputs((4, 48))], _HALF),
        "mlp_bfloat16": Model("in bfloat16", _mlp(torch.bfloat16), [_inputs((1, 48))], _HALF),
        "mlp_dynamic": Model(
            "a dynamic number of rows",
            _mlp(torch.float32),
            [_inputs((3, 48)), _inputs((64, 48)), _inputs((2, 48))],
            dynamic_shapes=({0: rows},),
        ),
        "convolutions": Model("1-d, 2-d, transposed", _convolutions(), [_inputs((2, 3, 12, 12))]),
        "attention": Model("causal attention", _Attention(), [_inputs((2, 19, 64))]),
        "attention_float16": Model(
            "in float16", _InDtype(_Attention(), torch.float16), [_inputs((1, 40, 64))], _HALF
        ),
        "cache": Model(
            "state that stays between calls",
            _Cache(),
            [(torch.randn(1, 1, 96), torch.tensor([position])) for position in range(4)],
        ),
        "order": Model("sort, topk, cumulative sums", _Order(), [_inputs((5, 41))]),
        "indexing": Model("gather, scatter", _Indexing(), [(torch.randn(6, 8), index)]),
        "lstm": Model("a recurrent layer", _Rnn(), [_inputs((2, 6, 12))]),
    }


def models() -> dict[str, Model]:
    """The models by name, with seeded weights and inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = _models()
    for model in found.values():
        model.module.eval()
    return found
