"""A folder with a tiny Whisper of transformers, random, and sounds for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tiny_checkpoints import BEGIN, END, stand_for_quantised, write_tokenizer

RATE = MAX_SAMPLES = 16000
_MAX_LENGTH = 100
START, ENGLISH, GERMAN, TRANSCRIBE, TRANSLATE, NO_TIMESTAMPS, FIRST_TIME = range(258, 265)
_WORDS = ("startoftranscript", "en", "de", "transcribe", "translate", "notimestamps", "0.00")
_VOCABULARY = 272
_PRINTABLE = 94
_SIZES = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "vocab_size": _VOCABULARY,
    "num_mel_bins": 16,
    "max_source_positions": 50,
    "max_target_positions": _MAX_LENGTH,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "pad_token_id": END,
    "decoder_start_token_id": START,
    "init_std": 0.2,  # with small weights a random model says one token over and over
}
_CHOSEN = {
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "pad_token_id": END,
    "decoder_start_token_id": START,
    "lang_to_id": {"<|en|>": ENGLISH, "<|de|>": GERMAN},
    "task_to_id": {"transcribe": TRANSCRIBE, "translate": TRANSLATE},
    "no_timestamps_token_id": NO_TIMESTAMPS,
    "is_multilingual": True,
    "task": "transcribe",
    "suppress_tokens": list(range(_PRINTABLE, _VOCABULARY)),  # texts are ASCII, and do not end
    "begin_suppress_tokens": [0],
    "max_length": _MAX_LENGTH,
    "return_timestamps": False,
}


def write_speech_checkpoint(folder: Path) -> Path:
    """Write weights, configurations, tokenizer and how audio is read; returns the folder."""
    import torch
    from transformers import (
        GenerationConfig,
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(WhisperConfig(**_SIZES))
    with torch.no_grad():
        model.model.decoder.embed_positions.weight *= 4  # texts change with where they are
        for layer in model.model.decoder.layers:
            layer.encoder_attn.out_proj.weight *= 2  # and with the audio
    model.generation_config = GenerationConfig(**_CHOSEN)
    model.save_pretrained(folder)
    bands = _SIZES["num_mel_bins"]
    WhisperFeatureExtractor(feature_size=bands, chunk_length=1).save_pretrained(folder)
    write_tokenizer(folder / "tokenizer.json", *(f"<|{word}|>" for word in _WORDS))
    return folder


def sound(seed: int, seconds: float = 0.7) -> Any:
    """A tone in noise, ``[n]``, float32."""
    random = np.random.default_rng(seed)
    times = np.arange(int(seconds * RATE)) / RATE
    tone = np.sin(2 * np.pi * random.uniform(100, 2000) * times)
    return (0.3 * tone + 0.1 * random.standard_normal(times.size)).astype(np.float32)


def features(folder: Path, samples: Any) -> Any:
    """The log-mel spectrum as transformers computes it."""
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    return extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features


def greedy_speech(
    folder: Path, samples: Any, count: int, quantize: str = "none", **options: Any
) -> list[int]:
    """What transformers writes, with weights as the quantised ones stand for, after the start."""
    import torch
    from transformers import WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype="float32").eval()
    stand_for_quantised(model, quantize)
    with torch.no_grad():
        tokens = model.generate(
            features(folder, samples), max_new_tokens=count, do_sample=False, **options
        )
    found: list[int] = tokens[0].tolist()
    return [token for token in found if token < START]
