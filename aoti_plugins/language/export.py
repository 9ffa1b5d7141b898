"""Models of transformers as exported programs, a method for each way of reading tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation import tokenizer_digest
from aoti_plugins.language.adapters import AdapterWriter, adapter_layout, adapter_metadata
from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.computed_sizes import check_sizes
from aoti_plugins.language.device_sampling import likeliest_token, sampled_token
from aoti_plugins.language.draft import DraftDecoder
from aoti_plugins.language.experts import expert_matrices, quantize_experts
from aoti_plugins.language.quantised_layers import quantised_layers, tied_head
from aoti_plugins.language.recurrent import BLOCK, RecurrentDecoder, is_recurrent
from aoti_plugins.language.speech import (
    SpeechDecoder,
    SpeechEncoder,
    SpeechModel,
    is_speech,
    speech_metadata,
)
from aoti_plugins.language.token_bytes import token_nbytes

_BITS = {"int4": torch.int4, "int8": torch.int8}
_EXAMPLE_LENGTH = 3
_EXAMPLE_PROMPT = 509


class _CachedDecoder(TorchExportableModuleWithStaticCache):
    """Takes tokens and where they are, writes its caches and gives the last token's logits.

    torch.export knows buffers of the module alone as state, so the cache gets these in each call.
    How many positions it has is no state: the positions say so.
    """

    logits_to_keep = 1
    """Of how many tokens, counted from the last one; 0 for all."""

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``[1, T]`` and ``[T]`` to ``[1, 1 or T, vocabulary]``, float32."""
        for i, layer in enumerate(self.static_cache.layers):
            layer.keys = getattr(self, f"key_cache_{i}")
            layer.values = getattr(self, f"value_cache_{i}")
            layer.cumulative_length = positions[0].clone()
        result = self.model(
            input_ids=tokens,
            past_key_values=self.static_cache,
            use_cache=True,
            logits_to_keep=self.logits_to_keep,
        )
        return result.logits.float()


def check_groups(model: Any, group_size: int) -> None:
    """Find out, from a model with or without weights, whether groups fit its products.

    Raises:
        CheckpointError: a weight's rows cannot be divided into such groups.
    """
    layers = quantised_layers(model).items()
    widths = {name: module.get_parameter("weight").size(1) for name, module in layers}
    experts = expert_matrices(model).items()
    widths |= {name: module.get_parameter(kind).size(2) for name, (module, kind) in experts}
    wrong = {name: width for name, width in widths.items() if width % group_size}
    if wrong:
        name, width = min(wrong.items())
        raise CheckpointError(
            f"groups of {group_size} do not fit {len(wrong)} weights, such as {name} with rows of "
            f"{width}; choose a --group-size that divides it"
        )


def quantize(model: Any, kind: str, group_size: int) -> None:
    """Quantise the weights of a model's products and its embedding in place, with torchao.

    A head that is the embedding still is it then: both read the same bits. Matrices of experts
    become integers only; with ``"fp8"`` they stay as they are.

    Args:
        model: with its weights.
        kind: ``"int4"``, ``"int8"``, or ``"fp8"`` (e4m3).
        group_size: how many weights of a row have one scale; of ``"fp8"`` a row has one.
    """
    from torchao.quantization import (
        Float8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        PerGroup,
        quantize_,
    )

    head = tied_head(model)
    chosen = set(quantised_layers(model).values()) - {head}
    if kind == "fp8":
        config, tiny = Float8WeightOnlyConfig(), {one: _tiny_rows(one.weight) for one in chosen}
    else:
        config, tiny = IntxWeightOnlyConfig(_BITS[kind], granularity=PerGroup(group_size)), {}
    quantize_(model, config, filter_fn=lambda module, _: module in chosen)
    if kind in _BITS:
        quantize_experts(model, _BITS[kind], group_size)
    for module, (numbers, rows) in tiny.items():
        _set_rows(module.weight, numbers, rows)
    if head is not None:
        head.weight = model.get_input_embeddings().weight


_LARGEST_FLOAT8 = torch.finfo(torch.float8_e4m3fn).max


def _tiny_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers and values of the rows whose scale torchao may round to 0, as of unused tokens."""
    limit = torch.finfo(weight.dtype).smallest_normal * _LARGEST_FLOAT8
    largest = torch.linalg.vector_norm(weight.detach(), torch.inf, 1)
    (numbers,) = (largest < limit).nonzero(as_tuple=True)
    return numbers, weight.detach()[numbers]


def _set_rows(weight: Any, numbers: torch.Tensor, rows: torch.Tensor) -> None:
    """Quantise rows as torchao does, but for a scale of 0, which it divides by: that gives NaN."""
    wide = rows.double()
    scale = wide.abs().amax(1, keepdim=True) / _LARGEST_FLOAT8
    scale = scale.clamp(min=torch.finfo(weight.scale.dtype).smallest_normal)
    codes = (wide / scale).to(weight.qdata.dtype)
    weight.qdata.view(torch.uint8)[numbers] = codes.view(torch.uint8)
    weight.scale[numbers] = scale.to(weight.scale.dtype)


def export_speech(
    model: Any, preprocessor: Any, max_length: int, style: str = "forward"
) -> dict[str, ExportedProgram]:
    """Export an encoder that hears and its decoder, which share state.

    ``encode`` takes ``samples`` ``[n]``, float32, and writes what the decoder asks of them; it
    gives their log-mel spectrum ``[1, bands, frames]``, float32. The others are those of
    ``export_decoder``, and are about the audio of the last ``encode``.

    Args:
        model: what ``Checkpoint.load`` gave.
        preprocessor: the checkpoint's.
        max_length: positions in the caches of the text.
        style: as for ``export_decoder``.

    Returns:
        The methods by name.

    Raises:
        CheckpointError: torch.export cannot take the model.
    """
    speech = SpeechModel(model, preprocessor, max_length).eval()
    samples = torch.zeros(preprocessor.n_samples // 2)
    length = Dim("length", max=preprocessor.n_samples)
    with torch.no_grad(), _naming(model):
        heard = torch.export.export(
            SpeechEncoder(speech), (samples,), dynamic_shapes=({0: length},), strict=False
        )
        decoder = SpeechDecoder(speech)
        lengths = _lengths(style, max_length)
        written = {name: _exported(decoder, name, most) for name, most in lengths.items()}
    return {"encode": heard, **written}


def export_decoder(
    model: Any,
    max_length: int,
    style: str = "forward",
    num_speculative_tokens: int = 0,
    sampling_dtype: torch.dtype | None = None,
) -> dict[str, ExportedProgram]:
    """Export a decoder with its key and value caches, or what stands for them, as state.

    Every method takes ``tokens`` ``[1, T]`` and their ``positions`` ``[T]``, int64 both, and gives
    logits ``[1, 1, vocabulary]`` of the last token, float32. Methods share the caches.

    Where layers take adapters, a method ``adapt`` takes one, ``[numel]``, float32, and writes it to
    the state of the others; it gives its largest number.

    Args:
        model: what ``Checkpoint.load`` gave, with adapters by ``add_adapters`` or without.
        max_length: positions in the caches.
        style: ``"forward"``, one method for any T; or ``"prefill-decode"``, a method ``prefill``
            for any T and a method ``decode`` for one token.
        num_speculative_tokens: over 0 there is a method ``verify`` as well, for one token more at
            most, which gives the logits ``[1, T, vocabulary]`` of all.
        sampling_dtype: for methods ``likeliest`` and ``sample`` as well, which give the next token,
            chosen by a distribution of this dtype; they take one token where there is ``decode``.

    Returns:
        The methods by name.

    Raises:
        CheckpointError: the model cannot be exported, or keeps no text that can be cut.
    """
    check_speculation(model.config, num_speculative_tokens)
    most = most_of_a_call(model.config, max_length)
    lengths = _lengths(style, most)
    if num_speculative_tokens:
        lengths["verify"] = min(most, num_speculative_tokens + 1)
    with torch.no_grad(), _naming(model):
        decoder = _decoder(model, max_length).eval()
        methods = {name: _exported(decoder, name, most) for name, most in lengths.items()}
        if sampling_dtype is not None:
            longest = lengths["decode" if "decode" in lengths else "forward"]
            methods |= _choosing(decoder, longest, max_length, sampling_dtype)
        layout = adapter_layout(model)
        if layout is not None:
            writer, adapter = AdapterWriter(decoder), torch.zeros(layout.numel)
            methods["adapt"] = torch.export.export(writer, (adapter,), strict=False)
    check_sizes(methods.values(), type(model).__name__)
    return methods


def export_draft(model: Any, max_length: int, style: str = "forward") -> dict[str, ExportedProgram]:
    """Export a draft model, whose state is no other method's.

    ``draft`` takes any number of ``tokens`` and their ``positions``, and gives the logits of the
    last one, as the methods of ``export_decoder`` do.

    Args:
        model: what ``Checkpoint.load`` gave.
        max_length: positions in the caches, as those of the model that it guesses for.
        style: as for ``export_decoder``; with ``"prefill-decode"`` there is ``draft_decode``, too,
            for one token.

    Returns:
        The methods by name.

    Raises:
        CheckpointError: the model cannot be exported.
    """
    lengths = {"draft": max_length} | ({"draft_decode": 1} if style != "forward" else {})
    with torch.no_grad(), _naming(model):
        decoder = DraftDecoder(_decoder(model, max_length)).eval()
        methods = {name: _exported(decoder, name, most) for name, most in lengths.items()}
    check_sizes(methods.values(), type(model).__name__)
    return methods


def check_speculation(config: Any, num_speculative_tokens: int) -> None:
    """Find out, from a configuration, whether a model can check tokens that it may not take.

    Raises:
        CheckpointError: it cannot, as its state stands for all that it has read, or as its texts
            are about audio.
    """
    if num_speculative_tokens and is_speech(config):
        raise CheckpointError(
            f"{config.model_type!r} cannot speculate: what is said is not guessed from its text; "
            "leave --speculate out"
        )
    if num_speculative_tokens and is_recurrent(config):
        raise CheckpointError(
            f"{config.model_type!r} cannot speculate: its state stands for all tokens that it has "
            "read, and cannot be cut where one of them was wrong"
        )


def _lengths(style: str, most: int) -> dict[str, int]:
    """The most tokens of a call, by method."""
    return {"forward": most} if style == "forward" else {"prefill": most, "decode": 1}


@contextlib.contextmanager
def _naming(model: Any) -> Iterator[None]:
    """Within the block, whatever fails is a ``CheckpointError`` that names the model."""
    try:
        yield
    except Exception as error:  # whatever a model's code and torch.export raise
        raise CheckpointError(
            f"torch.export cannot take {type(model).__name__} with a static cache: {error}"
        ) from error


def _exported(decoder: torch.nn.Module, name: str, most: int) -> ExportedProgram:
    """The decoder for 1 to ``most`` tokens, as one method."""
    example = _example_prompt(most) if name == "prefill" else min(_EXAMPLE_LENGTH, most)
    inputs = torch.zeros(1, example, dtype=torch.long), torch.arange(example)
    length = Dim("length", max=most)
    shapes = {"tokens": {1: length}, "positions": {0: length}} if most > 1 else None
    decoder.logits_to_keep = 0 if name == "verify" else 1
    return torch.export.export(decoder, inputs, dynamic_shapes=shapes, strict=False)


def _example_prompt(most: int) -> int:
    """How many tokens a prompt has for which kernels are chosen; any number is right.

    An odd number, and not the largest: what is equal to another size could be taken for it.
    """
    return min(most, max(_EXAMPLE_LENGTH, min(_EXAMPLE_PROMPT, most // 2) - 1 | 1))


def _choosing(
    decoder: torch.nn.Module, most: int, max_length: int, dtype: torch.dtype
) -> dict[str, ExportedProgram]:
    """The methods that give tokens, for 1 to ``most`` tokens."""
    decoder.logits_to_keep = 1
    example = min(_EXAMPLE_LENGTH, most)
    length = Dim("length", max=most)
    read = torch.zeros(1, example, dtype=torch.long), torch.arange(example), torch.zeros(2).long()
    shapes: dict[str, Any] = {"seen": {0: Dim("seen", max=max_length)}}
    shapes |= {"tokens": {1: length}, "positions": {0: length}} if most > 1 else {}
    made: dict[str, tuple[torch.nn.Module, torch.Tensor]] = {
        "likeliest": (likeliest_token(decoder), torch.ones(1)),
        "sample": (sampled_token(decoder, dtype), torch.ones(6, dtype=dtype)),
    }
    return {
        name: torch.export.export(
            module,
            (*read, settings),
            dynamic_shapes={"tokens": None, "positions": None, "settings": None, **shapes},
            strict=False,
        )
        for name, (module, settings) in made.items()
    }


def _decoder(model: Any, max_length: int) -> torch.nn.Module:
    if is_recurrent(model.config):
        return RecurrentDecoder(model)
    model.generation_config.cache_implementation = "static"
    model.generation_config.use_cache = True
    return _CachedDecoder(model, batch_size=1, max_cache_len=max_length)


def most_of_a_call(config: Any, max_length: int) -> int:
    """The most tokens that one call of a program takes."""
    return min(BLOCK, max_length) if is_recurrent(config) else max_length


def metadata(
    checkpoint: Checkpoint,
    model: Any,
    max_length: int,
    num_speculative_tokens: int = 0,
) -> dict[str, Any]:
    """The constant methods that say what a program is; ExecuTorch's runner asks for them."""
    chosen = model.generation_config
    begin = chosen.bos_token_id if chosen.bos_token_id is not None else -1
    end = chosen.eos_token_id if chosen.eos_token_id is not None else []
    speech = {}
    if checkpoint.preprocessor is not None:
        speech = speech_metadata(chosen, checkpoint.config.vocab_size, checkpoint.preprocessor)
    return {
        **speech,
        **adapter_metadata(model),
        "get_max_seq_len": most_of_a_call(checkpoint.config, max_length),
        "get_max_context_len": max_length,
        "get_vocab_size": checkpoint.config.vocab_size,
        "get_bos_id": begin,
        "get_eos_ids": list(end) if isinstance(end, (list, tuple)) else [end],
        "use_kv_cache": True,
        "is_recurrent": is_recurrent(checkpoint.config),
        "get_num_speculative_tokens": num_speculative_tokens,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": True,
        "get_token_nbytes": 0 if speech else token_nbytes(model),
        "get_tokenizer_digest": tokenizer_digest(checkpoint.tokenizer_path),
    }
