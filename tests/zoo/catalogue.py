"""Architectures of timm, torchvision and transformers, with seeded random weights.

What is known by a name is made as its package makes it; what has a configuration is made small, so
that its structure counts and not its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import configurations
import torch
from torch import nn

Tensors = tuple[torch.Tensor, ...]

_ASLEEP = 1e-2

_TIMM = """
beit_base_patch16_224 botnet26t_256 halonet26t resnet26t cait_xxs24_224 coat_tiny convit_tiny
convmixer_768_32 convnext_atto convnextv2_atto crossvit_tiny_240 cs3darknet_focus_s davit_tiny
deit_tiny_patch16_224 densenet121 dla46x_c dpn48b edgenext_xx_small efficientformer_l1
efficientformerv2_s0 efficientnet_b0 efficientvit_b0 efficientvit_m0 eva02_tiny_patch14_224
fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny gernet_s ghostnet_050 hardcorenas_b
hgnetv2_b0 hiera_tiny_224 hrnet_w18_small inception_next_atto inception_v3 inception_v4 lcnet_050
levit_128s mambaout_femto maxvit_rmlp_pico_rw_256 coatnet_nano_rw_224 gmlp_ti16_224 mixer_s32_224
mnasnet_small mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small mobileone_s0
mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny nextvit_small nf_regnet_b0 pit_ti_224
poolformer_s12 pvt_v2_b0 regnetx_002 repghostnet_050 repvit_m1 res2net50_14w_8s resnest14d resnet18
resnetv2_50 rexnet_100 selecsls42 sequencer2d_s seresnet50 skresnet18 starnet_s050 swiftformer_xs
swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 tf_efficientnetv2_b0 tiny_vit_5m_224
tnt_s_legacy_patch16_224 twins_svt_small vit_tiny_patch16_224 volo_d1_224 vovnet39a xception41
xcit_nano_12_p16_224
"""

_CLASSIFIERS = """
alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t
mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_y_400mf resnet50 resnext50_32x4d
shufflenet_v2_x0_5 squeezenet1_1 swin_t swin_v2_t vgg11_bn vit_b_32
"""

_SEGMENTERS = "deeplabv3_mobilenet_v3_large fcn_resnet50 lraspp_mobilenet_v3_large"
_VIDEO = "mc3_18 r2plus1d_18 s3d mvit_v2_s swin3d_t"
_DETECTORS = """
fasterrcnn_mobilenet_v3_large_320_fpn fcos_resnet50_fpn keypointrcnn_resnet50_fpn
maskrcnn_resnet50_fpn retinanet_resnet50_fpn ssdlite320_mobilenet_v3_large ssd300_vgg16
"""


@dataclass(frozen=True)
class Case:
    """A model and what it is called with, one call after the other.

    Attributes:
        model: in eval mode.
        calls: the tensors of each call; all have the shapes of the first.
        strict: export with Dynamo, which sees that a cache's tensors are the module's buffers.
    """

    model: nn.Module
    calls: tuple[Tensors, ...]
    strict: bool = False


class Outputs(nn.Module):
    """A model as a function of tensors that gives its tensors, in a flat tuple.

    Args:
        model: what is called.
        names: the keywords for the tensors; without any they go by position.
        options: further keywords.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__()
        self.model, self.names, self.options = model, names, options

    def forward(self, *tensors: torch.Tensor) -> Tensors:
        """What the model gives."""
        named = dict(zip(self.names, tensors, strict=False))
        found = self.model(*tensors[len(named) :], **named, **self.options)
        leaves = torch.utils._pytree.tree_leaves(found)
        return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


class DetectorNetwork(nn.Module):
    """All of a torchvision detector that has weights, without what chooses boxes.

    The whole detector is not a case, for torch.export does not take it: ``batched_nms`` asks in
    Python how many boxes there are, which only the data says, and in the detectors with regions so
    does their pooling. Without that, ``torchvision::nms`` and ``torchvision::roi_align`` remain,
    ops of torchvision's library without decompositions, for which ExecuTorch has no kernels.

    Args:
        detector: one with a single stage, which has a ``head``, or one with regions, which has
            ``rpn`` and ``roi_heads``.
    """

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, image: torch.Tensor, *pooled: torch.Tensor) -> Tensors:
        """What the heads give for an image, and for what was pooled of it.

        Args:
            image: one, [3, height, width], from 0 to 1; it is normalized, resized and padded here.
            pooled: features of regions for each of the ``region_heads``.

        Returns:
            One stage: what the head gives, before softmax or sigmoid, relative to the anchors. With
            regions: the features, the region proposal network's objectness and boxes for each
            level of them, then what each head gives for what was pooled.
        """
        images, _ = self.detector.transform([image])
        features = self.detector.backbone(images.tensors)
        levels = list(features.values())
        if not hasattr(self.detector, "rpn"):
            return tuple(self.detector.head(levels).values())
        objectness, boxes = self.detector.rpn.head(levels)
        found = [
            predict(head(regions))
            for (_, head, predict), regions in zip(self.region_heads(), pooled, strict=True)
        ]
        return (*levels, *objectness, *boxes, *torch.utils._pytree.tree_leaves(found))

    def region_heads(self) -> list[tuple[Any, nn.Module, nn.Module]]:
        """Pooling, head and predictor for boxes, masks and keypoints, those that there are."""
        heads = getattr(self.detector, "roi_heads", None)
        parts = [
            tuple(
                getattr(heads, f"{kind}_{part}", None) for part in ("roi_pool", "head", "predictor")
            )
            for kind in ("box", "mask", "keypoint")
        ]
        return [(pool, head, predict) for pool, head, predict in parts if head is not None]


def _timm(name: str) -> Case:
    import timm

    model = timm.create_model(name).eval()
    size = model.pretrained_cfg["input_size"]
    return Case(Outputs(model), ((torch.randn(1, *size),),))


def _torchvision(name: str, *size: int, **options: Any) -> Case:
    from torchvision import models

    model = models.get_model(name, weights=None, **options)
    return Case(Outputs(model.eval()), ((torch.randn(1, *size),),))


def _detector(name: str) -> Case:
    from torchvision import models

    sizes = {} if name.startswith("ssd") else {"min_size": 320, "max_size": 320}
    detector = models.get_model(name, weights=None, weights_backbone=None, **sizes).eval()
    network = DetectorNetwork(detector)
    pooled = [
        torch.randn(8, detector.backbone.out_channels, *pool.output_size)
        for pool, _, _ in network.region_heads()
    ]
    return Case(network, ((torch.rand(3, 200, 260), *pooled),))


class MissingInPackageError(LookupError):
    """The installed release of a package has no such architecture."""


def _transformers_class(name: str) -> Any:
    import transformers

    try:
        return getattr(transformers, name)
    except AttributeError as error:
        release = transformers.__version__
        raise MissingInPackageError(f"{name} is not in transformers {release}") from error


def _config(name: str, **values: Any) -> Any:
    return _transformers_class(f"{name}Config")(**values)


def _made(name: str, config: Any) -> nn.Module:
    return _transformers_class(name)(config).eval()


_TEXT = {
    "vocab_size": 128,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
}


def _whole_text(name: str, **values: Any) -> Case:
    """An encoder, or a decoder without cache: OPT asks in Python for the length of its cache."""
    model = _made(f"{name}Model", _config(name, **{**_TEXT, **values}))
    tokens = torch.randint(5, 120, (2, 16))
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 12:] = 0
    names = ("input_ids", "attention_mask")
    return Case(Outputs(model, names, return_dict=False), ((tokens, mask),))


class StaticCacheDecoder(nn.Module):
    """A language model that keeps its keys and values in buffers of a fixed length."""

    def __init__(self, model: Any, length: int = 32) -> None:
        super().__init__()
        from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

        model.generation_config.cache_implementation = "static"
        model.generation_config.use_cache = True
        self.decoder = TorchExportableModuleWithStaticCache(model, 1, length)

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Scores after one more token."""
        return self.decoder(input_ids=token, cache_position=position)


def _decoder(name: str, head: str = "ForCausalLM", **values: Any) -> Case:
    config = _config(name, **{**_TEXT, **values})
    model = StaticCacheDecoder(_made(f"{name}{head}", config))
    calls = tuple((torch.randint(5, 120, (1, 1)), torch.tensor([place])) for place in range(4))
    return Case(model, calls, strict=True)


def _grouped(name: str, **values: Any) -> Case:
    return _decoder(name, num_key_value_heads=2, **values)


_TOWER = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 64,
    "patch_size": 16,
}


def _image_tower(name: str, **values: Any) -> Case:
    model = _made(f"{name}Model", _config(name, **{**_TOWER, **values}))
    image = torch.randn(2, 3, 64, 64)
    return Case(Outputs(model, ("pixel_values",), return_dict=False), ((image,),))


def _text_tower(name: str) -> Case:
    config = _config(name, **{**_TEXT, "max_position_embeddings": 16})
    tokens = torch.randint(5, 120, (2, 16))
    return Case(
        Outputs(_made(f"{name}Model", config), ("input_ids",), return_dict=False), ((tokens,),)
    )


_SOUND = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "conv_dim": (32, 32, 32),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


def _speech(name: str, **values: Any) -> Case:
    model = _made(f"{name}Model", _config(name, **{**_SOUND, **values}))
    sound = torch.randn(1, 4000)
    return Case(Outputs(model, ("input_values",), return_dict=False), ((sound,),))


_ENCODER_DECODER = {
    "vocab_size": 128,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}


def _whisper() -> Case:
    config = _config(
        "Whisper",
        **_ENCODER_DECODER,
        max_source_positions=100,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    inputs = (torch.randn(1, 80, 200), torch.randint(5, 120, (1, 8)))
    names = ("input_features", "decoder_input_ids")
    model = Outputs(_made("WhisperModel", config), names, use_cache=False, return_dict=False)
    return Case(model, (inputs,))


def _two_sequences(name: str, **values: Any) -> Case:
    config = _config(name, **values)
    inputs = (torch.randint(5, 120, (2, 16)), torch.randint(5, 120, (2, 8)))
    names = ("input_ids", "decoder_input_ids")
    model = Outputs(_made(f"{name}Model", config), names, use_cache=False, return_dict=False)
    return Case(model, (inputs,))


_T5 = {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}


def _swin() -> Case:
    config = _config(
        "Swin", image_size=64, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    model = Outputs(_made("SwinModel", config), ("pixel_values",), return_dict=False)
    return Case(model, ((torch.randn(1, 3, 64, 64),),))


def _segformer() -> Case:
    config = _config("Segformer", hidden_sizes=[16, 32, 40, 64], decoder_hidden_size=32)
    model = Outputs(
        _made("SegformerForSemanticSegmentation", config), ("pixel_values",), return_dict=False
    )
    return Case(model, ((torch.randn(1, 3, 64, 64),),))


def _ast() -> Case:
    config = _config(
        "AST",
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_length=64,
        num_mel_bins=32,
    )
    model = Outputs(_made("ASTModel", config), ("input_values",), return_dict=False)
    return Case(model, ((torch.randn(1, 64, 32),),))


_TRANSFORMERS: dict[str, Callable[[], Case]] = {
    "bert": lambda: _whole_text("Bert"),
    "roberta": lambda: _whole_text("Roberta", max_position_embeddings=66),
    "distilbert": lambda: _whole_text("DistilBert", dim=64, hidden_dim=128, n_layers=2, n_heads=4),
    "albert": lambda: _whole_text("Albert", embedding_size=32),
    "electra": lambda: _whole_text("Electra", embedding_size=32),
    "deberta_v2": lambda: _whole_text("DebertaV2"),
    "mpnet": lambda: _whole_text("MPNet", max_position_embeddings=66),
    "modernbert": lambda: _whole_text("ModernBert", pad_token_id=0, cls_token_id=1, sep_token_id=2),
    "gpt2": lambda: _decoder("GPT2", "LMHeadModel", n_embd=64, n_layer=2, n_head=4, n_positions=64),
    "llama": lambda: _grouped("Llama"),
    "mistral": lambda: _grouped("Mistral"),
    "qwen2": lambda: _grouped("Qwen2"),
    "qwen3": lambda: _grouped("Qwen3", head_dim=16),
    "gemma2": lambda: _grouped("Gemma2", head_dim=16),
    "phi3": lambda: _grouped("Phi3", pad_token_id=0),
    "olmo2": lambda: _grouped("Olmo2"),
    "gpt_neox": lambda: _decoder("GPTNeoX"),
    "opt": lambda: _whole_text("OPT", ffn_dim=128, word_embed_proj_dim=64, use_cache=False),
    "mixtral": lambda: _grouped(
        "Mixtral", head_dim=16, num_local_experts=4, experts_implementation="batched_mm"
    ),
    "qwen3_moe": lambda: _whole_text(
        "Qwen3Moe",
        num_key_value_heads=2,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        use_cache=False,
    ),
    "deepseek_v3": lambda: _whole_text(
        "DeepseekV3",
        num_key_value_heads=4,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=32,
        kv_lora_rank=16,
        q_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=16,
        first_k_dense_replace=1,
        use_cache=False,
    ),
    "t5": lambda: _two_sequences("T5", **_T5),
    "bart": lambda: _two_sequences("Bart", **_ENCODER_DECODER, max_position_embeddings=64),
    "whisper": _whisper,
    "wav2vec2": lambda: _speech("Wav2Vec2"),
    "hubert": lambda: _speech("Hubert"),
    "wavlm": lambda: _speech("WavLM"),
    "audio_spectrogram_transformer": _ast,
    "clip_vision": lambda: _image_tower("CLIPVision"),
    "clip_text": lambda: _text_tower("CLIPText"),
    "siglip_vision": lambda: _image_tower("SiglipVision"),
    "siglip_text": lambda: _text_tower("SiglipText"),
    "vit": lambda: _image_tower("ViT"),
    "beit": lambda: _image_tower("Beit", use_relative_position_bias=True),
    "dinov2": lambda: _image_tower("Dinov2"),
    "swin": _swin,
    "segformer": _segformer,
}


def _masked_sequences(name: str, **values: Any) -> Case:
    config = _config(name, **{**_ENCODER_DECODER, **values})
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 12:] = 0
    inputs = (torch.randint(5, 120, (2, 16)), mask, torch.randint(5, 120, (2, 8)), mask[:, 4:12])
    names = ("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask")
    model = Outputs(_made(f"{name}Model", config), names, use_cache=False, return_dict=False)
    return Case(model, (tuple(tensor.contiguous() for tensor in inputs),))


_KINDS: list[tuple[Callable[..., Case], configurations.Configurations]] = [
    (_whole_text, configurations.EXPERTS),
    (_whole_text, configurations.TEXT),
    (_masked_sequences, configurations.ENCODER_DECODERS),
    (_image_tower, configurations.IMAGES),
    (_speech, configurations.SPEECH),
]


def _entries() -> dict[str, Callable[[], Case]]:
    found: dict[str, Callable[[], Case]] = {}
    for name in _TIMM.split():
        found[f"timm.{name}"] = lambda name=name: _timm(name)
    for name in _CLASSIFIERS.split():
        side = 299 if name == "inception_v3" else 224
        options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        found[f"torchvision.{name}"] = lambda name=name, side=side, options=options: _torchvision(
            name, 3, side, side, **options
        )
    for name in _SEGMENTERS.split():
        found[f"torchvision.{name}"] = lambda name=name: _torchvision(
            name, 3, 128, 128, weights_backbone=None
        )
    for name in _VIDEO.split():
        side = 224 if name in ("s3d", "mvit_v2_s") else 112
        found[f"torchvision.{name}"] = lambda name=name, side=side: _torchvision(
            name, 3, 16, side, side
        )
    for name in _DETECTORS.split():
        found[f"torchvision.{name}.network"] = lambda name=name: _detector(name)
    for name, make in _TRANSFORMERS.items():
        found[f"transformers.{name}"] = make
    for build, table in _KINDS:
        for name, (of, values) in table.items():
            found[f"transformers.{name}"] = partial(build, of, **values)
    return found


ENTRIES = _entries()
"""What makes each, by package and name."""


def make(name: str) -> Case:
    """A model with seeded weights and inputs, all parts of which count.

    Raises:
        KeyError: there is no such entry.
        ImportError: its package is not installed.
    """
    build = ENTRIES[name]
    torch.manual_seed(0)
    case = build()
    wake(case.model, case.calls[0])
    return case


def wake(model: nn.Module, inputs: Tensors) -> None:
    """Weights with which what a model gives depends on all that it computes.

    A fresh model may start its last layer, or the scale of what blocks add, at zero or next to it,
    the scores of all classes at a low prior, and batch norms that have seen nothing let the inputs
    fade, so that only biases remain at the end. Here parameters none of which reaches 0.01 are
    drawn anew, and batch norms learn from the inputs.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.amax() < _ASLEEP:
                parameter.normal_(std=0.1)
        norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        hooks = [norm.register_forward_pre_hook(_learn) for norm in norms]
        if hooks:
            model(*inputs)
        for hook in hooks:
            hook.remove()


def _learn(norm: Any, inputs: Tensors) -> None:
    """Mean and variance of all channels of the input, a little different for each channel."""
    if norm.running_mean is not None:
        mean, deviation = inputs[0].mean(), inputs[0].std()
        norm.running_mean.copy_(mean + 0.1 * deviation * torch.randn_like(norm.running_mean))
        norm.running_var.copy_(deviation.square() * (0.5 + torch.rand_like(norm.running_var)))
