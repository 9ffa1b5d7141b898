"""The models of the examples, tests and benchmarks.

Small, real architectures with seeded random weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]


def mlp() -> Model:
    """64-256-64 perceptron, batch 4: so small that only the overhead of a call is measured."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    return model.eval(), (torch.randn(4, 64),)


class _Residual(nn.Module):
    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Conv2d(channels, out_channels, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class SmallResNet(nn.Module):
    """ResNet-style classifier: a stem, three residual stages, a global average, a linear head."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stages = nn.Sequential(
            _Residual(width, width, 1),
            _Residual(width, 2 * width, 2),
            _Residual(2 * width, 4 * width, 2),
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.stages(self.stem(image))
        return self.head(features.mean(dim=(2, 3)))


def small_cnn() -> Model:
    """SmallResNet on one 32x32 image; its batch norms have seen data, so they do something."""
    torch.manual_seed(0)
    model = SmallResNet()
    with torch.no_grad():
        model.train()(torch.randn(8, 3, 32, 32))
    return model.eval(), (torch.randn(1, 3, 32, 32),)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.feed_forward(self.norm2(x))


class SmallTransformer(nn.Module):
    """Causal decoder stack with scaled dot-product attention and a tied output head."""

    def __init__(
        self, vocabulary: int = 256, width: int = 64, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(128, width) * 0.02)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def small_transformer(dtype: torch.dtype = torch.float32) -> Model:
    """SmallTransformer on 16 tokens."""
    torch.manual_seed(0)
    return SmallTransformer().to(dtype).eval(), (torch.randint(0, 256, (1, 16)),)


class TaggerLstm(nn.Module):
    """Two LSTM layers over a sequence, a linear layer on each step."""

    def __init__(self, features: int = 16, width: int = 32, tags: int = 5) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(sequence)
        return self.head(states)


def lstm() -> Model:
    """TaggerLstm on a batch of two sequences of eight steps."""
    torch.manual_seed(0)
    return TaggerLstm().eval(), (torch.randn(2, 8, 16),)


class _CachedBlock(nn.Module):
    """A decoder block with grouped heads that keeps keys and values of earlier tokens."""

    def __init__(self, width: int, heads: int, kv_heads: int, capacity: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        self.norm1 = nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.RMSNorm(width)
        self.gate_up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        cache = torch.zeros(1, kv_heads, capacity, self.head_dim)
        self.register_buffer("keys", cache.clone())
        self.register_buffer("values", cache.clone())

    def forward(self, x: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        y = self.norm1(x)
        query = self.query(y).view(batch, tokens, self.heads, self.head_dim).transpose(1, 2)
        pair = self.key_value(y).view(batch, tokens, 2, self.kv_heads, self.head_dim)
        key, value = pair.permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, positions, key)
        self.values.index_copy_(2, positions, value)
        attended = functional.scaled_dot_product_attention(
            query, self.keys, self.values, mask, enable_gqa=True
        )
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class CachedDecoder(nn.Module):
    """Language model for one sequence that is fed token by token, or some at a time."""

    def __init__(
        self,
        vocabulary: int = 256,
        width: int = 64,
        heads: int = 4,
        kv_heads: int = 2,
        layers: int = 2,
        capacity: int = 64,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            _CachedBlock(width, heads, kv_heads, capacity) for _ in range(layers)
        )
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.capacity = capacity

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Tokens ``[1, n]`` at ``positions`` ``[n]``; logits ``[1, n, vocabulary]``."""
        mask = torch.arange(self.capacity, device=positions.device) <= positions[:, None]
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, positions, mask)
        return self.head(self.norm(x))


def cached_decoder() -> Model:
    """CachedDecoder, one token at position 0."""
    torch.manual_seed(0)
    return CachedDecoder().eval(), (torch.randint(0, 256, (1, 1)), torch.tensor([0]))


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": mlp,
    "cnn": small_cnn,
    "transformer": small_transformer,
    "transformer_bf16": lambda: small_transformer(torch.bfloat16),
    "lstm": lstm,
    "decoder": cached_decoder,
}
"""Models by the name that the command-line examples and the tests use."""
