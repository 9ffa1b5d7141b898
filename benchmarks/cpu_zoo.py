"""Models that run on CPUs, with random weights, for ``cpu_models.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass
class Case:
    """A model, an example of its inputs, and what XNNPACK's partitioner is to be told."""

    module: nn.Module
    inputs: tuple[Any, ...]
    xnnpack_options: dict[str, Any] = field(default_factory=dict)

    def flat_inputs(self) -> list[Any]:
        """The inputs as a program takes them."""
        return list(torch.utils._pytree.tree_leaves(self.inputs))


MODELS: dict[str, Callable[[], Case]] = {}


def _model(make: Callable[[], Case]) -> Callable[[], Case]:
    def seeded() -> Case:
        torch.manual_seed(0)
        case = make()
        case.module.eval()  # of exported models it returns nothing
        case.module.requires_grad_(False)
        return case

    MODELS[make.__name__.strip("_")] = seeded
    return make


class Head(nn.Module):
    """The first result of a model of transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*inputs)[0]


def _image(size: int = 224) -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, size, size),)


def _tokens(count: int, vocabulary: int = 30000) -> tuple[torch.Tensor]:
    return (torch.randint(vocabulary, (1, count)),)


def _of_timm(name: str) -> Case:
    import timm

    return Case(timm.create_model(name), _image())


@_model
def linear_1_row() -> Case:
    return Case(nn.Linear(2048, 2048), (torch.randn(1, 2048),))


@_model
def linear_32_rows() -> Case:
    return Case(nn.Linear(2048, 2048), (torch.randn(32, 2048),))


@_model
def mlp() -> Case:
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)]
    return Case(nn.Sequential(*layers), (torch.randn(4, 64),))


@_model
def encoder_layer() -> Case:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    return Case(layer, (torch.randn(1, 128, 512),))


@_model
def convolutions_3x3() -> Case:
    layers = [m for _ in range(4) for m in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())]
    return Case(nn.Sequential(*layers), (torch.randn(1, 64, 56, 56),))


class Separable(nn.Sequential):
    """A depthwise convolution and a pointwise one, with norms."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
            nn.BatchNorm2d(inputs),
            nn.ReLU6(),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(),
        )


@_model
def mobilenet() -> Case:
    sizes = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    sizes += [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]
    first = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000)]
    return Case(nn.Sequential(*first, *(Separable(*s) for s in sizes), *last), _image())


@_model
def resnet_50() -> Case:
    from transformers import ResNetConfig, ResNetForImageClassification

    return Case(Head(ResNetForImageClassification(ResNetConfig(num_labels=1000))), _image())


@_model
def resnet_18() -> Case:
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"}
    config = ResNetConfig(num_labels=1000, **sizes)
    return Case(Head(ResNetForImageClassification(config)), _image())


@_model
def resnet_18_int8() -> Case:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e import allow_exported_model_train_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    case = MODELS["resnet_18"]()
    config = get_symmetric_quantization_config(is_per_channel=True)
    model = torch.export.export(case.module, case.inputs).module()
    prepared = prepare_pt2e(model, XNNPACKQuantizer().set_global(config))
    for _ in range(2):
        prepared(*case.inputs)
    return Case(allow_exported_model_train_eval(convert_pt2e(prepared)), case.inputs)


@_model
def mobilenet_v2() -> Case:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    model = MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000))
    return Case(Head(model), _image())


@_model
def convnext_tiny() -> Case:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return Case(Head(ConvNextForImageClassification(ConvNextConfig(num_labels=1000))), _image())


@_model
def regnet_y_400mf() -> Case:
    from transformers import RegNetConfig, RegNetForImageClassification

    config = RegNetConfig(
        hidden_sizes=[48, 104, 208, 440], depths=[1, 3, 6, 6], groups_width=8, num_labels=1000
    )
    return Case(Head(RegNetForImageClassification(config)), _image())


@_model
def mobilenet_v3_small() -> Case:
    return _of_timm("mobilenetv3_small_100")


@_model
def efficientnet_b0() -> Case:
    return _of_timm("efficientnet_b0")


@_model
def vit_b_16() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    return Case(Head(ViTForImageClassification(ViTConfig(num_labels=1000))), _image())


@_model
def segformer_b0() -> Case:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return Case(Head(SegformerForSemanticSegmentation(SegformerConfig())), _image(256))


@_model
def bert_base() -> Case:
    from transformers import BertConfig, BertModel

    return Case(Head(BertModel(BertConfig())), _tokens(128))


@_model
def distilbert() -> Case:
    from transformers import DistilBertConfig, DistilBertModel

    return Case(Head(DistilBertModel(DistilBertConfig())), _tokens(64))


@_model
def whisper_tiny_encoder() -> Case:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536
    )
    return Case(Head(WhisperEncoder(config)), (torch.randn(1, 80, 3000),))


class Step(nn.Module):
    """One token through decoder layers with caches of keys and values."""

    def __init__(self, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(nn.ModuleDict(self._layer(width)) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, 8192, bias=False)
        for i in range(layers):
            for name in ("keys", "values"):
                cache = torch.zeros(1, heads, length, width // heads)
                self.register_buffer(f"{name}_{i}", cache)

    @staticmethod
    def _layer(width: int) -> dict[str, nn.Module]:
        names = {"q": width, "k": width, "v": width, "o": width, "gate": 3 * width, "up": 3 * width}
        linears = {name: nn.Linear(width, n, bias=False) for name, n in names.items()}
        down = nn.Linear(3 * width, width, bias=False)
        return {**linears, "down": down, "before": nn.RMSNorm(width), "between": nn.RMSNorm(width)}

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        length = self.keys_0.shape[2]
        mask = (torch.arange(length) <= position).view(1, -1)
        for i, layer in enumerate(self.layers):
            h = layer["before"](x)
            q, k, v = (
                layer[name](h).view(1, 1, self.heads, -1).transpose(1, 2)
                for name in ("q", "k", "v")
            )
            keys = getattr(self, f"keys_{i}").index_copy_(2, position, k)
            values = getattr(self, f"values_{i}").index_copy_(2, position, v)
            attended = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + layer["o"](attended.transpose(1, 2).reshape(1, 1, -1))
            h = layer["between"](x)
            x = x + layer["down"](nn.functional.silu(layer["gate"](h)) * layer["up"](h))
        return self.head(self.norm(x))


def _step() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Step(1024, 4, 16, 256), (torch.randn(1, 1, 1024), torch.tensor([17]))


@_model
def decoder_step() -> Case:
    return Case(*_step())


@_model
def decoder_step_bf16() -> Case:
    module, (x, position) = _step()
    return Case(module.bfloat16(), (x.bfloat16(), position))


@_model
def decoder_step_8da4w() -> Case:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    module, inputs = _step()
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    )
    quantize_(module, config)
    return Case(module, inputs)


@_model
def linear_8da4w() -> Case:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    module = nn.Sequential(nn.Linear(2048, 2048))
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    )
    quantize_(module, config)
    return Case(module, (torch.randn(1, 2048),))
