"""How a checkpoint wants its audio: sample rate, windows of a Fourier transform, mel filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aoti_plugins.errors import CheckpointError

_NAME = "preprocessor_config.json"


def read_preprocessor(folder: Path, config: Any) -> Any:
    """Read a checkpoint's settings of transformers' ``WhisperFeatureExtractor``.

    Args:
        folder: the checkpoint.
        config: of the model.

    Raises:
        CheckpointError: they are missing, damaged, or not those of the model.
    """
    from transformers import WhisperFeatureExtractor

    path = folder / _NAME
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: there is no {_NAME}, which says how audio is read; write it with "
            "WhisperFeatureExtractor.save_pretrained"
        )
    try:
        found = WhisperFeatureExtractor.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the class checks nothing: whatever its arithmetic raises
        raise CheckpointError(f"{path}: damaged: {error}") from error
    _check(path, found, config)
    return found


def _check(path: Path, found: Any, config: Any) -> None:
    frames = 2 * config.max_source_positions  # the second convolution takes every other one
    expected = {
        "feature_size": (found.feature_size, config.num_mel_bins),
        "chunk_length * sampling_rate": (found.n_samples, frames * found.hop_length),
        "dither": (found.dither, 0),
    }
    wrong = [
        f"{name} is {value}, expected {fits}"
        for name, (value, fits) in expected.items()
        if value != fits
    ]
    if wrong:
        raise CheckpointError(
            f"{path}: not that of the model: {'; '.join(wrong)}; copy the checkpoint again"
        )
