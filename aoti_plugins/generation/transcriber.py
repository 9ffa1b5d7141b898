"""Speech to text with a program."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aoti_plugins.errors import ProgramError
from aoti_plugins.generation.sampling import Sampling
from aoti_plugins.generation.speech_writer import SpeechWriter
from aoti_plugins.runtime.closing import Closing


@dataclass
class TranscriptionStatistics:
    """What a transcription took.

    Attributes:
        audio_s: seconds of audio.
        windows: pieces that the audio was heard in.
        language: as given, or as heard; empty where the model is for one language.
        new_tokens: tokens that were written.
        seconds: seconds until the last of them.
    """

    audio_s: float = 0.0
    windows: int = 0
    language: str = ""
    new_tokens: int = 0
    seconds: float = 0.0


class Transcriber(Closing):
    """A program that ``aoti-plugins export`` made of a Whisper, with its tokenizer.

    Audio that is longer than the model takes (30 s) is heard in windows of that length, one after
    the other, which know nothing of each other: a word on an edge may be lost or written twice. Cut
    long audio in pauses. Neither torch nor transformers is needed.

    Args:
        program: path of the ``.pte``.
        tokenizer: path of a ``tokenizer.json``; by default the one that export wrote beside the
            program.
        data_files: the ``.ptd`` files of the program.

    Raises:
        ProgramError: the program is damaged, or takes no audio.
        CheckpointError: the tokenizer is missing, damaged, or not the program's.

    Example:
        >>> with Transcriber("whisper.pte") as transcriber:          # doctest: +SKIP
        ...     print(transcriber.transcribe(samples, language="en"))
    """

    def __init__(
        self,
        program: str | os.PathLike[str],
        tokenizer: str | os.PathLike[str] | None = None,
        *,
        data_files: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self._writer = SpeechWriter(program, tokenizer, data_files=data_files)
        self.sample_rate = self._writer.sample_rate
        """Samples in a second of the audio that the model takes: 16000."""
        self.max_samples = self._writer.max_samples
        """Samples of a window."""
        self.languages = sorted(self._writer.languages)
        """Names of the languages, such as ``en``; none where the model is for one language."""
        self.statistics = TranscriptionStatistics()
        """Of the last transcription."""

    def session(self) -> Transcriber:
        """Another transcriber over the same weights, with what it hears and writes for itself.

        Closing one frees that; closing this transcriber ends them all.
        """
        other = copy.copy(self)
        other._writer = self._writer.session()
        other.statistics = TranscriptionStatistics()
        return other

    def stream(
        self,
        samples: Any,
        *,
        language: str | None = None,
        task: str | None = None,
        sampling: Sampling | None = None,
        max_new_tokens: int | None = None,
    ) -> Iterator[str]:
        """Write down what is said, in pieces.

        Args:
            samples: an array ``[n]``, float32, n over 0, -1 to 1, of ``sample_rate``.
            language: what is spoken, such as ``"en"``; by default the checkpoint's, or what the
                model hears in the first window.
            task: ``"transcribe"``, or ``"translate"`` into English; by default the checkpoint's.
            sampling: how tokens are chosen; by default the likeliest.
            max_new_tokens: the most tokens of a window; by default what fits.

        Returns:
            Pieces of text. ``statistics`` has what they took.

        Raises:
            ProgramError: the samples are no such array, or there is no such language or task;
                while pieces are read also that another transcription began on this transcriber.
        """
        _check_samples(samples)
        chosen, task_token = self._writer.language(language), self._writer.task(task)
        return self._windows(samples, chosen, task_token, sampling, max_new_tokens)

    def transcribe(self, samples: Any, **options: Any) -> str:
        """The whole text that ``stream`` gives."""
        return "".join(self.stream(samples, **options))

    def _windows(
        self,
        samples: Any,
        language: int | None,
        task: int,
        sampling: Sampling | None,
        most: int | None,
    ) -> Iterator[str]:
        writer, start = self._writer, time.perf_counter()
        found = self.statistics = TranscriptionStatistics(len(samples) / self.sample_rate)
        for begin in range(0, len(samples), self.max_samples):
            writer.hear(np.ascontiguousarray(samples[begin : begin + self.max_samples]))
            if language is None:
                language = writer.heard_language()
            found.windows, found.language = found.windows + 1, writer.name_of(language)
            yield from writer.write(writer.prompt(language, task), sampling, most)
            found.new_tokens += writer.statistics.new_tokens
            found.seconds = time.perf_counter() - start

    def close(self) -> None:
        """Free the program; of a session, what it hears and writes."""
        self._writer.close()


def _check_samples(samples: Any) -> None:
    if not isinstance(samples, np.ndarray):
        raise ProgramError(f"the samples are a {type(samples).__name__}, expected a numpy array")
    if samples.dtype != np.float32:
        hint = "; divide them by 32768" if samples.dtype == np.int16 else ""
        raise ProgramError(f"the samples are {samples.dtype}, expected float32 from -1 to 1{hint}")
    if samples.ndim != 1:
        raise ProgramError(
            f"the samples have the shape {list(samples.shape)}, expected one dimension: one "
            "channel, no batch"
        )
    if not samples.size:
        raise ProgramError("there are no samples; give at least one")
    wrong = np.flatnonzero(~np.isfinite(samples))
    if wrong.size:
        raise ProgramError(f"sample {wrong[0]} is {samples[wrong[0]]}, expected a finite number")
