"""``aoti-plugins transcribe``."""

from __future__ import annotations

from pathlib import Path

import click

from aoti_plugins.cli._options import PATH, data_option, program_argument, tokenizer_option
from aoti_plugins.cli._output import json_option, print_json
from aoti_plugins.cli._sampling import sampling_options
from aoti_plugins.cli._text import echo
from aoti_plugins.generation import Sampling, Transcriber, TranscriptionStatistics, read_wave
from aoti_plugins.units import seconds_text


@click.command()
@program_argument
@click.argument("audio", type=PATH)
@data_option
@tokenizer_option
@click.option("--language", help="What is spoken, such as en.  [default: what the model hears]")
@click.option(
    "--task",
    type=click.Choice(["transcribe", "translate"]),
    help="Write down what is said, or what it means in English.  [default: the checkpoint's]",
)
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    help="The most tokens of a window of audio.  [default: what fits]",
)
@sampling_options
@json_option
def command(
    program: Path,
    audio: Path,
    data_files: tuple[Path, ...],
    tokenizer: Path | None,
    language: str | None,
    task: str | None,
    max_new_tokens: int | None,
    sampling: Sampling,
    as_json: bool,
) -> None:
    """Write down the speech in AUDIO with a program that export made of a Whisper.

    AUDIO is a wave file: 16-bit PCM, one channel, 16 kHz. What is longer than 30 s is heard in
    windows of that length. The text goes to standard output as it comes, what it took to standard
    error.

    \b
      aoti-plugins transcribe whisper.pte speech.wav
      aoti-plugins transcribe whisper.pte rede.wav --language de --task translate
    """  # noqa: D301
    with Transcriber(program, tokenizer, data_files=data_files) as transcriber:
        text = []
        for piece in transcriber.stream(
            read_wave(audio, transcriber.sample_rate),
            language=language,
            task=task,
            sampling=sampling,
            max_new_tokens=max_new_tokens,
        ):
            text.append(piece)
            if not as_json:
                echo(piece, end="")
        found = transcriber.statistics
    if as_json:
        print_json({"text": "".join(text), **vars(found)})
        return
    echo("")
    echo(_took(found), err=True)


def _took(found: TranscriptionStatistics) -> str:
    """What a transcription took, in one line."""
    spoken = f" of {found.language}" if found.language else ""
    return (
        f"{seconds_text(found.audio_s)}{spoken} heard in {found.windows} "
        f"window{'s' * (found.windows != 1)}, {found.new_tokens} tokens generated in "
        f"{seconds_text(found.seconds)}"
    )
