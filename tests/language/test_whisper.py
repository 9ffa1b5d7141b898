"""From a checkpoint of Whisper to text: the same as transformers writes itself."""

from __future__ import annotations

import json
import shutil
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tiny_speech import MAX_SAMPLES, RATE, features, greedy_speech, sound

from aoti_plugins.cli.app import app
from aoti_plugins.errors import CheckpointError, ProgramError
from aoti_plugins.generation import Transcriber, read_tokenizer, read_wave
from aoti_plugins.language import Checkpoint
from aoti_plugins.runtime import Program

COUNT = 64
QUANTISED = ("int4", "--method-style", "prefill-decode")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def aoti(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def folder(checkpoints: Callable[[str], Path]) -> Path:
    return checkpoints("whisper")


@pytest.fixture(scope="module")
def program(exported: Callable[..., Path]) -> Path:
    return exported("whisper")


@pytest.fixture
def transcriber(program: Path) -> Iterator[Transcriber]:
    with Transcriber(program) as found:
        yield found


def write_wave(path: Path, samples: Any, rate: int = RATE, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def expected_text(folder: Path, samples: Any, quantize: str = "none", **options: Any) -> str:
    tokens = greedy_speech(folder, samples, COUNT, quantize, **options)
    assert len(tokens) == COUNT
    assert len(set(tokens)) > 4  # not one token over and over
    return str(read_tokenizer(folder / "tokenizer.json").decode(tokens))


@pytest.mark.parametrize("options", [(), QUANTISED], ids=["float32", "int4"])
def test_no_op_is_outside_the_delegates(
    exported: Callable[..., Path], options: tuple[object, ...]
) -> None:
    done = aoti("inspect", exported("whisper", *options), "--json")
    assert done.exit_code == 0, done.output
    methods = [one for one in json.loads(done.stdout)["methods"] if one["inputs"]]
    assert len(methods) == (3 if options else 2)
    assert all(not one["operators"] and len(one["delegates"]) == 1 for one in methods)


@pytest.mark.parametrize("seconds", [1.0, 0.7, 0.001])
def test_the_log_mel_spectrum_is_the_feature_extractors(
    folder: Path, program: Path, seconds: float
) -> None:
    samples = sound(2, seconds)
    (found,) = Program(program).method("encode")(samples)
    np.testing.assert_allclose(np.asarray(found), features(folder, samples).numpy(), atol=2e-5)


@pytest.mark.parametrize(
    ("options", "quantize"), [((), "none"), (QUANTISED, "int4")], ids=["float32", "int4"]
)
def test_64_greedy_tokens_are_those_of_transformers(
    folder: Path, exported: Callable[..., Path], options: tuple[object, ...], quantize: str
) -> None:
    expected = [expected_text(folder, sound(seed), quantize, language="en") for seed in (2, 3)]
    assert expected[0] != expected[1]
    with Transcriber(exported("whisper", *options)) as transcriber:
        for seed, text in ((2, expected[0]), (3, expected[1]), (2, expected[0])):
            found = transcriber.transcribe(sound(seed), language="en", max_new_tokens=COUNT)
            assert found == text


def test_languages_and_tasks(folder: Path, transcriber: Transcriber) -> None:
    samples, heard = sound(3), set()
    assert transcriber.languages == ["de", "en"]
    for options in ({}, {"language": "en"}, {"language": "de", "task": "translate"}):
        expected = expected_text(folder, samples, **options)
        assert transcriber.transcribe(samples, max_new_tokens=COUNT, **options) == expected
        assert transcriber.statistics.language in (options.get("language"), "de")
        heard.add(expected)
    assert len(heard) == 3


def test_sessions_do_not_disturb_each_other(transcriber: Transcriber) -> None:
    alone = [transcriber.transcribe(sound(seed), max_new_tokens=20) for seed in (2, 3)]
    sessions = [transcriber.session(), transcriber.session()]
    streams = [
        session.stream(sound(seed), max_new_tokens=20)
        for session, seed in zip(sessions, (2, 3), strict=True)
    ]
    in_turns = list(zip(*streams, strict=True))
    assert ["".join(pieces) for pieces in zip(*in_turns, strict=True)] == alone
    sessions[0].close()
    assert sessions[1].transcribe(sound(2), max_new_tokens=20) == alone[0]


def test_a_second_transcription_ends_the_first(transcriber: Transcriber) -> None:
    first = transcriber.stream(sound(2))
    next(first)
    transcriber.transcribe(sound(3), max_new_tokens=2)
    with pytest.raises(ProgramError, match="another answer began"):
        list(first)


def test_long_audio_is_heard_in_windows(transcriber: Transcriber) -> None:
    samples = sound(2, 2.5)
    whole = transcriber.transcribe(samples, language="en", max_new_tokens=8)
    found = transcriber.statistics
    assert (found.audio_s, found.windows, found.new_tokens) == (2.5, 3, 24)
    parts = [samples[begin : begin + MAX_SAMPLES] for begin in range(0, 40000, MAX_SAMPLES)]
    assert whole == "".join(
        transcriber.transcribe(part, language="en", max_new_tokens=8) for part in parts
    )


def test_a_call_with_more_audio_than_the_program_takes(program: Path) -> None:
    with pytest.raises(ProgramError, match="16001"):
        Program(program).method("encode")(np.zeros(MAX_SAMPLES + 1, np.float32))


def test_transcribing_needs_neither_torch_nor_transformers(
    program: Path, transcriber: Transcriber, run_python: Callable[..., str], tmp_path: Path
) -> None:
    path = write_wave(tmp_path / "a.wav", sound(2))
    printed = run_python(
        """
        import sys
        from pathlib import Path
        from aoti_plugins.generation import Transcriber, read_wave
        with Transcriber(sys.argv[1]) as transcriber:
            samples = read_wave(Path(sys.argv[2]), transcriber.sample_rate)
            print("heard", ascii(transcriber.transcribe(samples, max_new_tokens=8)))
        print("imported", {"torch", "transformers"} & set(sys.modules))
        """,
        program,
        path,
    )
    text = transcriber.transcribe(read_wave(path, RATE), max_new_tokens=8)
    assert f"heard {text!a}" in printed
    assert "imported set()" in printed


def test_transcribe_prints_the_text(
    program: Path, transcriber: Transcriber, tmp_path: Path
) -> None:
    path = write_wave(tmp_path / "a.wav", sound(2))
    text = transcriber.transcribe(read_wave(path, RATE), max_new_tokens=8)
    done = aoti("transcribe", program, path, "--max-new-tokens", 8)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{text}\n"
    assert "heard in 1 window, 8 tokens generated" in done.stderr
    done = aoti("transcribe", program, path, "--language", "de", "--json")
    assert json.loads(done.stdout)["language"] == "de"


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([0.0], "are a list, expected a numpy array"),
        (np.zeros(9, np.int16), "are int16, expected float32 from -1 to 1; divide them by 32768"),
        (np.zeros(9), "are float64, expected float32"),
        (np.zeros((1, 9), np.float32), r"the shape \[1, 9\], expected one dimension"),
        (np.zeros(0, np.float32), "there are no samples"),
        (np.array([0, np.nan], np.float32), "sample 1 is nan, expected a finite number"),
    ],
)
def test_samples_that_are_none(transcriber: Transcriber, samples: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        transcriber.stream(samples)


def test_languages_and_tasks_that_are_none(transcriber: Transcriber) -> None:
    with pytest.raises(ProgramError, match="knows no language 'fr'; it has de, en"):
        transcriber.stream(sound(2), language="fr")
    with pytest.raises(ProgramError, match="expected 'transcribe' or 'translate'"):
        transcriber.stream(sound(2), task="sing")


@pytest.mark.parametrize(
    ("rate", "channels", "message"),
    [
        (8000, 1, "8000 Hz, 1 channel of 16 bits, expected 16000 Hz, 1 channel of 16 bits"),
        (16000, 2, "16000 Hz, 2 channels of 16 bits, expected 16000 Hz, 1 channel of 16 bits"),
    ],
)
def test_files_with_other_audio(tmp_path: Path, rate: int, channels: int, message: str) -> None:
    path = write_wave(tmp_path / "a.wav", sound(2, 0.1), rate, channels)
    with pytest.raises(ProgramError, match=f"a.wav: {message}; make one with ffmpeg"):
        read_wave(path, RATE)


def test_files_that_are_no_audio(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    for content in (b"", b"no audio at all", b"RIFF\4\0\0\0WAVE"):
        path.write_bytes(content)
        done = aoti("transcribe", program, path)
        assert done.exit_code == 1
        assert "a.wav: not a wave file of PCM: " in done.stderr
    done = aoti("transcribe", program, tmp_path / "none.wav")
    assert done.exit_code == 1
    assert "No such file" in done.stderr


def test_each_command_names_the_other(
    program: Path, exported: Callable[..., Path], tmp_path: Path
) -> None:
    done = aoti("generate", program, "Hello")
    assert done.exit_code == 1
    assert "writes down speech, and takes no prompt; use aoti-plugins transcribe" in done.stderr
    path = write_wave(tmp_path / "a.wav", sound(2, 0.1))
    done = aoti("transcribe", exported("llama"), path)
    assert done.exit_code == 1
    assert "takes no audio; make one from a checkpoint of Whisper" in done.stderr


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: (folder / "preprocessor_config.json").unlink(),
            "there is no preprocessor_config.json, which says how audio is read",
        ),
        (
            lambda folder: (folder / "preprocessor_config.json").write_text("{"),
            "preprocessor_config.json: damaged",
        ),
        (
            lambda folder: edit(folder / "preprocessor_config.json", feature_size=80),
            "feature_size is 80, expected 16",
        ),
        (
            lambda folder: edit(folder / "preprocessor_config.json", chunk_length=30),
            r"chunk_length \* sampling_rate is 480000, expected 16000",
        ),
        (
            lambda folder: (folder / "generation_config.json").unlink(),
            "there is no generation_config.json",
        ),
    ],
)
def test_checkpoints_that_cannot_be_exported(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    copied = shutil.copytree(folder, tmp_path / "model")
    (copied / "model.safetensors").write_bytes(b"")  # found after what is tested here
    spoil(copied)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(copied)


def test_speech_is_not_guessed(folder: Path, tmp_path: Path) -> None:
    done = aoti("export", folder, "-o", tmp_path / "out.pte", "--speculate", 4)
    assert done.exit_code == 1
    assert "'whisper' cannot speculate" in done.stderr
