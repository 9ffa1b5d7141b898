"""Small models that are divided among ranks."""

from __future__ import annotations

import torch
from torch import nn

WIDTH, HEADS, KV_HEADS, HEAD, CONTEXT, VOCABULARY, EXPERTS = 32, 8, 4, 4, 16, 24, 4

PLAN = {
    "embedding": "rowwise",
    "layers.*.q": "colwise",
    "layers.*.k": "colwise",
    "layers.*.v": "colwise",
    "layers.*.out": "rowwise",
    "layers.*.gate": "colwise",
    "layers.*.up": "colwise",
    "layers.*.down": "rowwise",
    "layers.*.experts.up": "packed_colwise",
    "layers.*.experts.down": "rowwise",
    "layers.*.experts": "moe_tp_experts",
    "layers.*.norm": "replicated",
    "head": "colwise_gather_output",
}


class Experts(nn.Module):
    """The likeliest two experts of each token, gated ``[experts, 2 * width, width]``."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) / 6)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / 6)

    def forward(self, x: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """``[1, T, width]`` and the experts' shares ``[1, T, experts]``."""
        gate, up = torch.einsum("btw,enw->bten", x, self.up).chunk(2, -1)
        found = torch.einsum("bten,ewn->btew", nn.functional.silu(gate) * up, self.down)
        return (found * shares.unsqueeze(-1)).sum(2)


class Layer(nn.Module):
    """Attention over cached keys and values, a gated part, and experts."""

    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=True)
        self.v = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.out = nn.Linear(HEADS * HEAD, WIDTH, bias=True)
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.norm = nn.RMSNorm(WIDTH)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = Experts()
        self.register_buffer("keys", torch.zeros(1, kv_heads, CONTEXT, HEAD))
        self.register_buffer("values", torch.zeros(1, kv_heads, CONTEXT, HEAD))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``[1, T, width]`` to the same."""
        y = self.norm(x)
        q, k, v = (_heads(layer(y)) for layer in (self.q, self.k, self.v))
        self.keys[:, :, positions] = k
        self.values[:, :, positions] = v
        found = nn.functional.scaled_dot_product_attention(
            q,
            self.keys.repeat_interleave(HEADS // KV_HEADS, 1),
            self.values.repeat_interleave(HEADS // KV_HEADS, 1),
            attn_mask=torch.arange(CONTEXT) <= positions[:, None],
        )
        x = x + self.out(found.transpose(1, 2).flatten(2))
        y = self.norm(x)
        x = x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        shares, chosen = self.router(x).softmax(-1).topk(2)
        shares = torch.zeros(*x.shape[:2], EXPERTS).scatter(-1, chosen, shares)
        return x + self.experts(x, shares)


class Decoder(nn.Module):
    """Tokens ``[1, T]`` at positions ``[T]`` to logits ``[1, T, vocabulary]``.

    Args:
        kv_heads: of the caches of this rank.
    """

    def __init__(self, kv_heads: int = KV_HEADS) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer(kv_heads)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Take tokens that follow those of the calls before."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, positions)
        return self.head(x)


class Perceptron(nn.Module):
    """An embedding and two layers: tokens ``[4]`` to ``[4, 8]``."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(16, 8)
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Of each token, a row."""
        return self.second(self.first(self.embedding(tokens)).relu())


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (-1, HEAD)).transpose(1, 2)
