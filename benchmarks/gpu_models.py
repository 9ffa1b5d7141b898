"""The models of the GPU benchmarks: small, real architectures with seeded random weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Model = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Perceptron(nn.Module):
    """64-256-64 with GELU, a layer norm and a softmax: all overhead, no work."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 256), nn.Linear(256, 64), nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x [batch, 64]`` to probabilities."""
        return torch.softmax(self.norm(self.down(functional.gelu(self.up(x)))), -1)


class ConvNet(nn.Module):
    """Four stages of two convolutions each, halving the image every time."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 32, 64, 128, 256)
        stages = [
            nn.Sequential(
                nn.Conv2d(before, after, 3, 2, 1),
                nn.BatchNorm2d(after),
                nn.ReLU(),
                nn.Conv2d(after, after, 3, 1, 1),
                nn.ReLU(),
            )
            for before, after in itertools.pairwise(widths)
        ]
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(256, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Class scores of ``image [batch, 3, height, width]``."""
        return self.head(self.stages(image).mean((2, 3)))


class RmsNorm(nn.Module):
    """Root-mean-square norm, computed in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Norm over the last dimension."""
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Layer(nn.Module):
    """Causal attention and a gated feed-forward layer."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer over ``x [batch, tokens, width]``."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Decoder(nn.Module):
    """A stack of layers between an embedding and a linear head."""

    def __init__(
        self, layers: int = 4, width: int = 1024, heads: int = 16, hidden: int = 2816
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(8192, width)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, 8192, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores for every token of ``tokens [batch, tokens]``."""
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class CachedLayer(nn.Module):
    """A layer of a Llama: grouped heads, rotary positions, keys and values in buffers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, size = shape.width, shape.size_of_head
        self.kv_heads, self.size = shape.kv_heads, size
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        columns = (shape.heads * size, *2 * [self.kv_heads * size])
        self.qkv = _side_by_side(width, columns, shape.separate)
        self.query_norm, self.key_norm = (
            RmsNorm(size) if shape.head_norms else nn.Identity() for _ in range(2)
        )
        self.out = nn.Linear(shape.heads * size, width, bias=False)
        self.inner = Experts(shape) if shape.experts else Gated(shape)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, self.kv_heads, shape.capacity, size))

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """One layer over ``x [batch, tokens, width]`` at ``positions [tokens]``."""
        batch, tokens, _ = x.shape
        norms = (self.query_norm, self.key_norm, nn.Identity())
        query, key, value = (
            norm(part.view(batch, tokens, -1, self.size)).transpose(1, 2)
            for norm, part in zip(norms, self.qkv(self.norm1(x)), strict=True)
        )
        self.keys.index_copy_(2, positions, _rotated(key, *angles))
        self.values.index_copy_(2, positions, value)
        attended = functional.scaled_dot_product_attention(
            _rotated(query, *angles), self.keys, self.values, mask, enable_gqa=True
        )
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, -1))
        return x + self.inner(self.norm2(x))


class Gated(nn.Module):
    """The second half of a layer: a gate."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        hidden = shape.hidden
        self.gate_up = _side_by_side(shape.width, (hidden, hidden), shape.separate)
        self.down = nn.Linear(hidden, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same sizes."""
        gate, up = self.gate_up(x)
        return self.down(functional.silu(gate) * up)


class Experts(nn.Module):
    """The second half of a layer: gates of experts, as ``batched_mm`` of transformers has them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        count, width, hidden = shape.experts, shape.width, shape.hidden
        self.chosen = shape.chosen
        self.router = nn.Parameter(torch.randn(count, width) * width**-0.5)
        self.gate_up_proj = nn.Parameter(torch.randn(count, 2 * hidden, width) * width**-0.5)
        self.down_proj = nn.Parameter(torch.randn(count, width, hidden) * hidden**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same sizes."""
        rows = x.reshape(-1, x.size(-1))
        shares = functional.linear(rows, self.router).softmax(-1, torch.float32)
        shares, experts = shares.topk(self.chosen)
        shares = (shares / shares.sum(-1, keepdim=True)).to(x.dtype).reshape(-1)
        experts = experts.reshape(-1)
        repeated = rows.repeat_interleave(self.chosen, 0)
        both = torch.bmm(self.gate_up_proj[experts], repeated.unsqueeze(-1)).squeeze(-1)
        gate, up = both.chunk(2, -1)
        down = torch.bmm(self.down_proj[experts], (functional.silu(gate) * up).unsqueeze(-1))
        found = down.squeeze(-1) * shares.unsqueeze(-1)
        return found.view(-1, self.chosen, x.size(-1)).sum(1).reshape(x.shape)


class Joined(nn.Module):
    """Products of the same rows as one."""

    def __init__(self, width: int, columns: tuple[int, ...]) -> None:
        super().__init__()
        self.columns, self.layer = columns, nn.Linear(width, sum(columns), bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """All products of ``x [..., width]``."""
        return self.layer(x).split(self.columns, -1)


class Separate(nn.Module):
    """Products of the same rows, as checkpoints have them."""

    def __init__(self, width: int, columns: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, n, bias=False) for n in columns)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """All products of ``x [..., width]``."""
        return tuple(layer(x) for layer in self.layers)


def _side_by_side(width: int, columns: tuple[int, ...], separate: bool) -> nn.Module:
    return Separate(width, columns) if separate else Joined(width, columns)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama; by default those of Llama 3.2 1B."""

    layers: int = 16
    vocabulary: int = 128_256
    capacity: int = 1024
    width: int = 2048
    heads: int = 32
    kv_heads: int = 8
    hidden: int = 8192
    separate: bool = False  # query, key and value, gate and up: weights of their own
    head_size: int | None = None
    head_norms: bool = False
    experts: int = 0  # of ``hidden`` columns each
    chosen: int = 0

    @property
    def size_of_head(self) -> int:
        """Elements of a head."""
        return self.head_size or self.width // self.heads


class CachedDecoder(nn.Module):
    """A Llama with a cache."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        vocabulary, width, size = shape.vocabulary, shape.width, shape.size_of_head
        self.capacity = shape.capacity
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(CachedLayer(shape) for _ in range(shape.layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        steps = torch.arange(0, size, 2) / size
        self.register_buffer("frequencies", 500_000**-steps)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Scores of the last of ``tokens [1, n]`` at ``positions [n]``."""
        mask = torch.arange(self.capacity, device=positions.device) <= positions[:, None]
        angles = positions[:, None].float() * self.frequencies.float()
        angles = torch.cat([angles, angles], -1)
        x = self.tokens(tokens)
        pair = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, positions, mask, pair)
        return self.head(self.norm(x[:, -1:]))


def mlp() -> Model:
    """Perceptron, float32, batch 4."""
    torch.manual_seed(0)
    return Perceptron().eval(), (torch.randn(4, 64),)


def cnn() -> Model:
    """ConvNet, float32, one image of 224 by 224."""
    torch.manual_seed(0)
    return ConvNet().eval(), (torch.randn(1, 3, 224, 224),)


def small_cnn() -> Model:
    """ConvNet, float32, one image of 16 by 16."""
    torch.manual_seed(0)
    return ConvNet().eval(), (torch.randn(1, 3, 16, 16),)


def small_decoder() -> Model:
    """Decoder of one layer of 64, bfloat16, one sequence of 16 tokens."""
    torch.manual_seed(0)
    return Decoder(1, 64, 2, 128).bfloat16().eval(), (torch.randint(0, 8192, (1, 16)),)


def transformer(tokens: int) -> Model:
    """Decoder, bfloat16, one sequence."""
    torch.manual_seed(0)
    return Decoder().to(torch.bfloat16).eval(), (torch.randint(0, 8192, (1, tokens)),)


def llama(shape: Shape) -> Model:
    """CachedDecoder, bfloat16, one token."""
    torch.manual_seed(0)
    model = CachedDecoder(shape).to(torch.bfloat16).eval()
    return model, (torch.zeros(1, 1, dtype=torch.long), torch.tensor([100]))


def prompt(decoder: Model) -> Model:
    """The same with 512 tokens, which are all that there are."""
    return decoder[0], (torch.arange(512)[None], torch.arange(512))


def small_weights(bits: int, group_size: int | None, shape: Shape) -> Model:
    """CachedDecoder, bfloat16, one token; weights of products of 4 or 8 bits.

    Args:
        bits: 4 or 8.
        group_size: weights of a row that have one scale; none for all of them.
        shape: of the model.
    """
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    from aoti_plugins.language.experts import quantize_matrices

    model, inputs = llama(shape)
    granularity = PerAxis(0) if group_size is None else PerGroup(group_size)
    dtype = {4: torch.int4, 8: torch.int8}[bits]
    quantize_(model, IntxWeightOnlyConfig(dtype, granularity))
    for module in model.modules():
        if isinstance(module, Experts):
            for name in ("gate_up_proj", "down_proj"):
                quantize_matrices(module, name, dtype, group_size)
    return model, inputs


def small_floats(kind: str, shape: Shape) -> Model:
    """CachedDecoder, bfloat16, one token; weights of products are floats of 8 or 4 bits.

    Args:
        kind: ``"float8"``, ``"mxfp8"`` or ``"nvfp4"``.
        shape: of the model.
    """
    from executorch.extension.llm.export.mx import ExportableMXConfig
    from executorch.extension.llm.export.nvfp4 import ExportableNVFP4Config
    from torchao.quantization import Float8WeightOnlyConfig, quantize_

    configs: dict[str, Callable[[], Any]] = {
        "float8": Float8WeightOnlyConfig,
        "mxfp8": ExportableMXConfig,
        "nvfp4": ExportableNVFP4Config,
    }
    model, inputs = llama(shape)
    quantize_(model, configs[kind]())
    return model, inputs


def q4_k_m(shape: Shape) -> Model:
    """CachedDecoder, bfloat16, one token; random blocks of GGUF as files of ``Q4_K_M`` have them.

    The head, and of half of the layers the last product and the values, are ``q6_k``, others
    ``q4_k``.
    """
    from executorch.extension.llm.export.gguf import ExportableGGUFTensor

    def blocks(layer: nn.Linear, kind: str) -> None:
        n, k = layer.weight.shape
        nbytes, steps = {"q4_k": (144, (0, 2)), "q6_k": (210, (208,))}[kind]
        raw = torch.randint(0, 256, (n, k // 256, nbytes), dtype=torch.uint8)
        for place, step in zip(steps, (1e-4, 8e-4), strict=False):
            raw[..., place : place + 2] = torch.tensor([step]).half().view(torch.uint8)
        if kind == "q6_k":
            raw[..., 192:208] = torch.randint(0, 20, (n, k // 256, 16), dtype=torch.uint8)
        weight = ExportableGGUFTensor(raw.flatten(1), kind, torch.bfloat16)
        layer.weight = nn.Parameter(weight, requires_grad=False)

    model, inputs = llama(shape)
    for i, layer in enumerate(model.layers):
        query, key, value = layer.qkv.layers
        for one in (query, key, layer.out, *layer.inner.gate_up.layers):
            blocks(one, "q4_k")
        for one in (value, layer.inner.down):
            blocks(one, "q6_k" if i % 2 else "q4_k")
    blocks(model.head, "q6_k")
    return model, inputs


def gigabyte() -> Model:
    """32 square layers, bfloat16, batch 4: a gigabyte of weights and hardly any code."""
    torch.manual_seed(0)
    layers = [layer for _ in range(32) for layer in (nn.Linear(4096, 4096, bias=False), nn.ReLU())]
    return nn.Sequential(*layers).to(torch.bfloat16).eval(), (
        torch.randn(4, 4096, dtype=torch.bfloat16),
    )


def resnet50() -> Model:
    """Torchvision's ResNet-50, bfloat16, one image of 224 by 224."""
    from torchvision import models

    torch.manual_seed(0)
    image = torch.randn(1, 3, 224, 224, dtype=torch.bfloat16)
    return models.resnet50(weights=None).to(torch.bfloat16).eval(), (image,)


def vit_b_16() -> Model:
    """Torchvision's ViT-B/16, bfloat16, one image of 224 by 224."""
    from torchvision import models

    torch.manual_seed(0)
    image = torch.randn(1, 3, 224, 224, dtype=torch.bfloat16)
    model = models.vit_b_16(weights=None)
    nn.init.normal_(model.heads.head.weight, std=0.02)  # zero otherwise, as the results would be
    return model.to(torch.bfloat16).eval(), (image,)


class LastHiddenState(nn.Module):
    """A model of transformers as a function of one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the last layer gives."""
        return self.model(x, return_dict=False)[0]


def bert_base() -> Model:
    """BERT-base of transformers, bfloat16, one sequence of 128 tokens."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = LastHiddenState(BertModel(BertConfig(), add_pooling_layer=False))
    return model.to(torch.bfloat16).eval(), (torch.randint(0, 30000, (1, 128)),)


def _whisper_small(encoder_layers: int, decoder_layers: int) -> Any:
    """A configuration with Whisper-small's widths; what is not measured has a layer."""
    from transformers import WhisperConfig

    return WhisperConfig(
        d_model=768,
        encoder_layers=encoder_layers,
        encoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_layers=decoder_layers,
        decoder_attention_heads=12,
        decoder_ffn_dim=3072,
    )


def whisper_small_encoder() -> Model:
    """The encoder of Whisper-small of transformers, bfloat16, 30 seconds of sound."""
    from transformers import WhisperModel

    torch.manual_seed(0)
    encoder = WhisperModel(_whisper_small(12, 1)).encoder
    model = LastHiddenState(encoder).to(torch.bfloat16).eval()
    return model, (torch.randn(1, 80, 3000, dtype=torch.bfloat16),)


def whisper_small_decoder_step() -> Model:
    """One token of Whisper-small's decoder as we export it, bfloat16; of sound, noise was heard."""
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

    from aoti_plugins.language.speech import SpeechDecoder, SpeechModel

    torch.manual_seed(0)
    config = _whisper_small(1, 12)
    whisper = WhisperForConditionalGeneration(config).to(torch.bfloat16).eval()
    speech = SpeechModel(whisper, WhisperFeatureExtractor(), config.max_target_positions)
    for layer in speech.layers:
        layer.heard_keys.normal_()
        layer.heard_values.normal_()
    tokens, positions = torch.full((1, 1), 1000), torch.tensor([100])
    return SpeechDecoder(speech).eval(), (tokens, positions)


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": mlp,
    "transformer_1": lambda: transformer(1),
    "transformer_128": lambda: transformer(128),
    "cnn": cnn,
}
"""What needs nothing but PyTorch."""

PACKAGED: dict[str, Callable[[], Model]] = {
    "resnet50": resnet50,
    "vit_b_16": vit_b_16,
    "bert_base": bert_base,
    "whisper_small_encoder": whisper_small_encoder,
    "whisper_small_decoder_step": whisper_small_decoder_step,
}
"""What needs torchvision or transformers; random weights."""

LARGE: dict[str, Callable[[], Model]] = {"gigabyte": gigabyte}
"""What is there for its weights."""

SMALL: dict[str, Callable[[], Model]] = {"small_cnn": small_cnn, "small_decoder": small_decoder}
"""What tools/gpu_contract.sh calls under sanitizers, which slow kernels down a thousand times."""

QWEN3_30B_A3B = Shape(
    layers=4,
    vocabulary=151_936,
    kv_heads=4,
    hidden=768,
    head_size=128,
    head_norms=True,
    experts=128,
    chosen=8,
)
"""Sizes of Qwen3-30B-A3B, of whose layers four."""

DECODERS: dict[str, Callable[[], Model]] = {
    "llama_4_layers": lambda: llama(Shape(4, 32_000)),
    "llama_32_layers": lambda: llama(Shape(32, 32_000)),
    "llama_16_layers": lambda: llama(Shape()),
    "llama_16_layers_separate": lambda: llama(Shape(separate=True)),
    "llama_4_layers_int4": lambda: small_weights(4, 128, Shape(4, 32_000)),
    "llama_16_layers_int8": lambda: small_weights(8, None, Shape()),
    "llama_16_layers_int4": lambda: small_weights(4, 128, Shape()),
    "llama_16_layers_int4_separate": lambda: small_weights(4, 128, Shape(separate=True)),
    "llama_16_layers_int4_groups_of_32": lambda: small_weights(4, 32, Shape()),
    "llama_16_layers_int4_cache_of_32768": lambda: small_weights(4, 128, Shape(capacity=32_768)),
    "llama_16_layers_float8": lambda: small_floats("float8", Shape()),
    "llama_16_layers_mxfp8": lambda: small_floats("mxfp8", Shape()),
    "llama_16_layers_nvfp4": lambda: small_floats("nvfp4", Shape()),
    "llama_16_layers_q4_k_m": lambda: q4_k_m(Shape(separate=True)),
    "llama_32_layers_int4": lambda: small_weights(
        4, 128, Shape(layers=32, width=4096, hidden=14_336)
    ),
    "qwen3_moe_4_layers_int4": lambda: small_weights(4, 128, QWEN3_30B_A3B),
}
"""One token of a language model (benchmarks/cuda_decode.py)."""

PROMPTS: dict[str, Callable[[], Model]] = {
    f"{name}_prompt": lambda make=DECODERS[name]: prompt(make())
    for name in ("llama_16_layers", "llama_16_layers_int8", "llama_16_layers_int4")
}
"""512 tokens of a language model (benchmarks/cuda_decode.py)."""

TOKENS = DECODERS | PROMPTS
"""Language models with a cache."""

ALL = MODELS | PACKAGED | LARGE | SMALL | TOKENS
