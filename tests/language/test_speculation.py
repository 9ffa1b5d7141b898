"""Guessed tokens change how many are read in a call, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiny_checkpoints import MAX_LENGTH

from aoti_plugins.cli.app import app
from aoti_plugins.errors import ProgramError
from aoti_plugins.generation import Sampling, TextGenerator
from aoti_plugins.generation.prompt_lookup import PromptLookup

PROMPT = "one two three one two three one two"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def program(exported: Callable[..., Path]) -> Path:
    return exported("llama", "none", "--method-style", "prefill-decode", "--speculate", 6)


@pytest.fixture
def guessing(program: Path) -> Iterator[TextGenerator]:
    with TextGenerator(program) as generator:
        yield generator


@pytest.fixture
def all_are_guessed(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int]], None]:
    """``all_are_guessed(tokens)``: guesses are the tokens of an answer that is known."""

    def guess_from(known: list[int]) -> None:
        def guess(_: PromptLookup, seen: list[int], most: int) -> list[int]:
            given = next(n for n in range(len(seen), -1, -1) if seen[len(seen) - n :] == known[:n])
            return known[given : given + min(6, most)]

        monkeypatch.setattr(PromptLookup, "guess", guess)

    return guess_from


SAMPLINGS = [
    Sampling(),
    Sampling(repetition_penalty=1.3),
    Sampling(temperature=0.9, top_k=12, seed=3),
    Sampling(temperature=1.4, top_p=0.9, repetition_penalty=1.1, seed=4),
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_tokens_are_those_without_guesses(
    llama: TextGenerator,
    guessing: TextGenerator,
    all_are_guessed: Callable[[list[int]], None],
    sampling: Sampling,
) -> None:
    prompt = list(llama.tokenizer.encode(PROMPT).ids)
    expected = list(llama.tokens(prompt, sampling))
    assert len(expected) == MAX_LENGTH - len(prompt)
    assert list(guessing.tokens(prompt, sampling)) == expected
    all_are_guessed(expected)
    assert list(guessing.tokens(prompt, sampling)) == expected
    right = guessing.statistics
    assert right.accepted_tokens == right.guessed_tokens > len(expected) * 3 / 4
    all_are_guessed([one ^ 1 if i % 5 == 4 else one for i, one in enumerate(expected)])
    assert list(guessing.tokens(prompt, sampling)) == expected


def test_an_answer_may_end_within_a_guess(
    guessing: TextGenerator, all_are_guessed: Callable[[list[int]], None]
) -> None:
    prompt = list(guessing.tokenizer.encode(PROMPT).ids)
    expected = list(guessing.tokens(prompt))
    all_are_guessed(expected)
    for count in range(1, 9):
        assert list(guessing.tokens(prompt, max_new_tokens=count)) == expected[:count]
        assert guessing.statistics.reason == "length"
    end = expected[10]
    guessing._end_tokens = {end}
    assert list(guessing.tokens(prompt)) == expected[: expected.index(end) + 1]
    assert guessing.statistics.reason == "end"


def test_the_cache_holds_right_tokens_wherever_an_answer_is_left(
    guessing: TextGenerator, llama: TextGenerator, all_are_guessed: Callable[[list[int]], None]
) -> None:
    prompt = list(guessing.tokenizer.encode(PROMPT).ids)
    expected = list(llama.tokens(prompt))
    all_are_guessed([one ^ 1 if i % 4 == 3 else one for i, one in enumerate(expected)])
    for count in range(1, 12):
        tokens = guessing.tokens(prompt)
        begun = [next(tokens) for _ in range(count)]
        longer = [*prompt, *begun, 5]
        found = list(guessing.tokens(longer, max_new_tokens=6))
        assert guessing.statistics.cached_tokens == len(prompt) + count - 1
        assert found == list(llama.tokens(longer, max_new_tokens=6))
        with pytest.raises(ProgramError, match="another answer began"):
            next(tokens)


def test_sessions_guess_each_for_itself(guessing: TextGenerator) -> None:
    texts = [PROMPT, "a b a b a b", "Hello, hello, hello"]
    alone = [guessing.generate(text, max_new_tokens=20) for text in texts]
    sessions = [guessing.session() for _ in texts]
    prompts = [guessing.tokenizer.encode(text).ids for text in texts]
    streams = [
        one.tokens(prompt, max_new_tokens=20) for one, prompt in zip(sessions, prompts, strict=True)
    ]
    in_turns = list(zip(*streams, strict=True))
    found = [guessing.tokenizer.decode(tokens) for tokens in zip(*in_turns, strict=True)]
    assert found == alone


def test_the_command_line_shows_what_was_right(program: Path) -> None:
    def run(*options: str) -> Any:
        done = CliRunner().invoke(app, ["generate", str(program), PROMPT, *options])
        assert done.exit_code == 0, done.output
        return done

    with_guesses, without = run(), run("--no-speculate")
    assert with_guesses.stdout == without.stdout
    assert "guessed tokens were right" in with_guesses.stderr
    assert "guessed" not in without.stderr
