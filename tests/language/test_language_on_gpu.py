"""Programs of ``aoti-plugins export`` on an NVIDIA GPU: the tokens that transformers generates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_checkpoints import greedy_tokens, tokens_of
from tiny_speech import greedy_speech, sound

from aoti_plugins.generation import Sampling, TextGenerator, Transcriber, read_tokenizer
from aoti_plugins.runtime import Method

PROMPT, COUNT = "Hello, 1", 64
GPU = ("--device", "cuda", "--dtype", "float32")
TWO_METHODS = ("--method-style", "prefill-decode")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


@pytest.mark.parametrize(
    ("kind", "quantize", "more"),
    [
        ("llama", "none", ()),
        ("llama", "none", (*TWO_METHODS, "--sample-on-device")),
        ("llama_tied", "int4", TWO_METHODS),
        ("llama_tied", "fp8", TWO_METHODS),
        ("qwen3", "int8", ()),
        ("gemma3", "none", TWO_METHODS),
        ("qwen3_moe", "none", ()),
        ("phi", "none", ()),
        ("phi3", "none", ()),
        ("mamba", "none", ()),
    ],
)
def test_64_greedy_tokens_are_those_of_transformers(
    kind: str,
    quantize: str,
    more: tuple[str, ...],
    checkpoints: Callable[[str], Path],
    exported: Callable[..., Path],
) -> None:
    folder = checkpoints(kind)
    prompt = tokens_of(folder, PROMPT)
    expected = greedy_tokens(folder, prompt, COUNT, quantize)
    assert len(set(expected)) > 4  # not one token over and over
    with TextGenerator(exported(kind, quantize, *GPU, *more)) as generator:
        found = [list(generator.tokens(prompt, max_new_tokens=COUNT)) for _ in range(3)]
    assert found == [expected] * 3  # over the old cache, and as a graph


def test_sessions_take_turns(exported: Callable[..., Path]) -> None:
    prompts = [[5, 6, 7], [9, 8], [11], [3, 4, 5, 6]]
    with TextGenerator(exported("llama", "none", *GPU)) as generator:
        alone = [list(generator.tokens(one, max_new_tokens=24)) for one in prompts]
        sessions = [generator.session() for _ in prompts]
        answers = [
            session.tokens(prompt, max_new_tokens=24)
            for session, prompt in zip(sessions, prompts, strict=True)
        ]
        turns = list(zip(*answers, strict=True))
    assert [list(one) for one in zip(*turns, strict=True)] == alone


def test_what_is_sampled_on_the_device_repeats(exported: Callable[..., Path]) -> None:
    program = exported("llama", "none", *GPU, *TWO_METHODS, "--sample-on-device")
    sampling = Sampling(temperature=0.9, top_k=40, top_p=0.95, seed=3)
    with TextGenerator(program) as generator:
        one, again = (list(generator.tokens([1, 2, 3], sampling, 32)) for _ in range(2))
    with TextGenerator(program, on_device=False) as on_host:
        assert one == again == list(on_host.tokens([1, 2, 3], sampling, 32))


def test_calls_that_are_ahead_change_no_token(
    exported: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = exported("llama", "none", *GPU, *TWO_METHODS, "--sample-on-device")
    samplings = [Sampling(), *(Sampling(temperature=1.0, top_p=0.9, seed=i) for i in range(4))]

    def answers() -> list[list[int]]:
        with TextGenerator(program) as generator:
            assert generator._model._methods["sample"].can_begin is is_ahead
            return [list(generator.tokens([1, 2, 3], one, 64)) for one in samplings * 2]

    is_ahead = True
    ahead = answers()
    monkeypatch.setattr(Method, "can_begin", False)
    is_ahead = False
    assert ahead == answers()


def test_guesses_change_no_token(
    checkpoints: Callable[[str], Path], exported: Callable[..., Path]
) -> None:
    folder = checkpoints("llama")
    program = exported("llama", "none", *GPU, "--speculate", "4")
    with TextGenerator(program) as generator:
        found = list(generator.tokens(tokens_of(folder, PROMPT), max_new_tokens=COUNT))
    assert found == greedy_tokens(folder, tokens_of(folder, PROMPT), COUNT)


@pytest.mark.parametrize("quantize", ["none", "int4"])
def test_speech_becomes_the_text_of_transformers(
    quantize: str, checkpoints: Callable[[str], Path], exported: Callable[..., Path]
) -> None:
    folder = checkpoints("whisper")
    program = exported("whisper", quantize, *GPU, *TWO_METHODS)
    with Transcriber(program) as transcriber:
        for seed in (2, 3, 2):
            found = transcriber.transcribe(sound(seed), language="en", max_new_tokens=COUNT)
            tokens = greedy_speech(folder, sound(seed), COUNT, quantize, language="en")
            assert found == read_tokenizer(folder / "tokenizer.json").decode(tokens)
