"""Audio from files."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np

from aoti_plugins.errors import ProgramError

_NBYTES = 2  # of a sample
_LOUDEST = 32768


def read_wave(path: Path, sample_rate: int) -> Any:
    """Read a file of 16-bit PCM with one channel (``.wav``).

    Args:
        path: of the file.
        sample_rate: which it has to have.

    Returns:
        ``[n]``, float32, from -1 to 1.

    Raises:
        ProgramError: it is no such file; says how to make one.
    """
    try:
        with wave.open(str(path), "rb") as file:
            found = (file.getframerate(), file.getnchannels(), 8 * file.getsampwidth())
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        reason = str(error) or "it ends too early"
        raise ProgramError(
            f"{path}: not a wave file of PCM: {reason}; {_hint(sample_rate)}"
        ) from error
    expected = (sample_rate, 1, 8 * _NBYTES)
    if found != expected:
        raise ProgramError(
            f"{path}: {_described(*found)}, expected {_described(*expected)}; {_hint(sample_rate)}"
        )
    if len(data) % _NBYTES:
        raise ProgramError(f"{path}: the last sample is not whole; copy the file again")
    return np.frombuffer(data, "<i2").astype(np.float32) / _LOUDEST


def _described(rate: int, channels: int, bits: int) -> str:
    return f"{rate} Hz, {channels} channel{'s' * (channels != 1)} of {bits} bits"


def _hint(rate: int) -> str:
    return f"make one with ffmpeg -i IN -ar {rate} -ac 1 -c:a pcm_s16le OUT.wav"
