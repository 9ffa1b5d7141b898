"""A draft model in the program changes how many tokens are read in a call, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from filelock import FileLock
from safetensors.torch import load_file, save_file
from test_speculation import PROMPT, SAMPLINGS
from tiny_checkpoints import MAX_LENGTH, write_tokenizer

from aoti_plugins.cli.app import app
from aoti_plugins.generation import Sampling, TextGenerator
from aoti_plugins.generation.draft import DraftGuesses

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


@pytest.fixture(scope="module")
def guesser(shared_dir: Path, checkpoints: Callable[[str], Path]) -> Path:
    """A checkpoint that says much, and not all, of what the model says: the same with noise."""
    import torch

    folder = shared_dir / "checkpoint_noisy"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            shutil.copytree(checkpoints("llama"), folder)
            path = folder / "model.safetensors"
            torch.manual_seed(1)
            noisy = {
                name: one + 0.03 * torch.randn_like(one) for name, one in load_file(path).items()
            }
            save_file(noisy, path, {"format": "pt"})
    return folder


@pytest.fixture
def program(exported: Callable[..., Path], guesser: Path) -> Path:
    return exported("llama", "none", "--draft", guesser, "--speculate", 6)


@pytest.fixture
def guessing(program: Path) -> Iterator[TextGenerator]:
    with TextGenerator(program) as generator:
        yield generator


def aoti(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_tokens_are_those_without_guesses(
    llama: TextGenerator, guessing: TextGenerator, sampling: Sampling
) -> None:
    prompt = list(llama.tokenizer.encode(PROMPT).ids)
    expected = list(llama.tokens(prompt, sampling))
    assert len(expected) == MAX_LENGTH - len(prompt)
    assert list(guessing.tokens(prompt, sampling)) == expected
    found = guessing.statistics
    least = 1 if sampling.temperature else len(expected) / 8
    assert least <= found.accepted_tokens < found.guessed_tokens
    assert list(guessing.tokens(prompt, sampling)) == expected  # over the old caches


def test_the_draft_model_knows_where_its_text_was_cut(
    guessing: TextGenerator, llama: TextGenerator
) -> None:
    prompt = list(guessing.tokenizer.encode(PROMPT).ids)
    for count in range(1, 10):
        tokens = guessing.tokens(prompt)
        begun = [next(tokens) for _ in range(count)]
        longer = [*prompt, *begun, 5]
        found = list(guessing.tokens(longer, max_new_tokens=8))
        assert found == list(llama.tokens(longer, max_new_tokens=8))
    assert guessing.statistics.guessed_tokens > 0


def test_sessions_have_each_their_draft(guessing: TextGenerator, llama: TextGenerator) -> None:
    prompts = [list(llama.tokenizer.encode(text).ids) for text in (PROMPT, "a b", "Hello, 1")]
    expected = [list(llama.tokens(prompt, max_new_tokens=24)) for prompt in prompts]
    sessions = [guessing.session() for _ in prompts]
    streams = [
        one.tokens(prompt, max_new_tokens=24) for one, prompt in zip(sessions, prompts, strict=True)
    ]
    in_turns = list(zip(*streams, strict=True))
    assert [list(tokens) for tokens in zip(*in_turns, strict=True)] == expected
    assert all(one.statistics.guessed_tokens > 0 for one in sessions)
    sessions[0].close()
    assert list(sessions[1].tokens(prompts[1], max_new_tokens=24)) == expected[1]


def test_guesses_may_be_looked_up_instead(program: Path, llama: TextGenerator) -> None:
    prompt = list(llama.tokenizer.encode("abcdefg").ids)  # nothing is there twice
    expected = list(llama.tokens(prompt, max_new_tokens=3))
    ways: tuple[tuple[bool | str, int], ...] = ((True, 1), ("lookup", 0), (False, 0))
    for speculate, guessed in ways:
        with TextGenerator(program, speculate=speculate) as generator:
            assert list(generator.tokens(prompt, max_new_tokens=3)) == expected
            assert generator.statistics.guessed_tokens == guessed


def test_the_command_line_shows_what_was_right(program: Path) -> None:
    with_guesses = aoti("generate", program, PROMPT)
    without = aoti("generate", program, PROMPT, "--no-speculate")
    assert (with_guesses.exit_code, without.exit_code) == (0, 0)
    assert with_guesses.stdout == without.stdout
    assert "guessed tokens were right" in with_guesses.stderr
    assert "guessed" not in without.stderr


def test_a_token_that_the_draft_model_does_not_know() -> None:
    read: list[list[int]] = []

    def likeliest(text: list[int], begin: int) -> Any:
        read.append(list(text))
        return np.eye(8, dtype=np.float32)[len(text) % 8]

    model: Any = SimpleNamespace(read=likeliest, reusable=lambda text: 0)
    guesses = DraftGuesses(model, vocabulary=8, most=3)
    assert guesses.guess([1, 2], 5) == [2, 3, 4]
    assert guesses.guess([1, 2], 1) == [2]
    guesses.learn(0)
    assert guesses.guess([1, 2], 5) == [2]
    read.clear()
    assert guesses.guess([1, 8], 5) == []
    assert not read


def other_tokens(folder: Path) -> None:
    write_tokenizer(folder / "tokenizer.json", "<more>")


def shorter(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_position_embeddings": 64}))


@pytest.mark.parametrize(
    ("kind", "spoil", "message"),
    [
        ("llama", other_tokens, "the draft model has other tokens than the model"),
        ("llama", shorter, "was made for 64 positions, and texts have up to 128"),
        ("llama", lambda folder: (folder / "model.safetensors").unlink(), "no model.safetensors"),
        ("mamba", lambda folder: None, "'mamba' cannot be a draft model"),
        ("whisper", lambda folder: None, "'whisper' cannot be a draft model"),
    ],
)
def test_models_that_cannot_guess(
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    kind: str,
    spoil: Callable[[Path], object],
    message: str,
) -> None:
    folder = shutil.copytree(checkpoints(kind), tmp_path / "draft")
    spoil(folder)
    done = aoti("export", checkpoints("llama"), "-o", tmp_path / "out.pte", "--draft", folder)
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["draft"]


def test_a_model_that_cannot_check(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    draft = ("--draft", checkpoints("llama"))
    done = aoti("export", checkpoints("mamba"), "-o", tmp_path / "out.pte", *draft)
    assert done.exit_code == 1
    assert "'mamba' cannot speculate" in done.stderr
