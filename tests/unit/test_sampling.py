"""Tokens are drawn from the distribution that the options say, and text comes whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoints import write_tokenizer

from aoti_plugins.generation.sampling import Sampling, choose, penalised, probabilities
from aoti_plugins.generation.text_stream import TextStream
from aoti_plugins.generation.tokenizer import read_tokenizer

LOGITS = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.05], np.float32))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"temperature": 1.0}, [0.4, 0.3, 0.15, 0.1, 0.05]),
        ({"temperature": 0.5}, [0.16, 0.09, 0.0225, 0.01, 0.0025]),
        ({"temperature": 1.0, "top_k": 2}, [0.4, 0.3, 0, 0, 0]),
        ({"temperature": 1.0, "top_k": 9}, [0.4, 0.3, 0.15, 0.1, 0.05]),
        ({"temperature": 1.0, "top_p": 0.75}, [0.4, 0.3, 0.15, 0, 0]),
        ({"temperature": 1.0, "top_p": 0.01}, [1, 0, 0, 0, 0]),
        ({"temperature": 1.0, "min_p": 0.3}, [0.4, 0.3, 0.15, 0, 0]),
        ({"temperature": 1.0, "top_k": 3, "top_p": 0.8}, [0.4, 0.3, 0, 0, 0]),
    ],
)
def test_the_distribution(options: dict[str, float], expected: list[float]) -> None:
    sampling = Sampling(**options)
    found = probabilities(LOGITS, [], sampling)
    np.testing.assert_allclose(found, np.array(expected) / sum(expected), rtol=1e-5)
    random = np.random.default_rng(0)
    drawn = np.bincount([choose(LOGITS, [], sampling, random) for _ in range(4000)], minlength=5)
    np.testing.assert_allclose(drawn / 4000, found, atol=0.03)
    assert not drawn[found == 0].any()


def test_the_penalty_makes_what_was_there_less_likely() -> None:
    found = penalised(np.array([2.0, -2.0, 1.0]), [0, 1, 1], 2.0)
    assert found.tolist() == [1.0, -4.0, 1.0]
    greedy = Sampling(repetition_penalty=3.0)
    assert choose(np.array([2.0, 1.0]), [0], greedy, np.random.default_rng(0)) == 1


@pytest.mark.parametrize(
    "options", [{"temperature": -1}, {"top_k": -1}, {"top_p": 0}, {"min_p": 2}]
)
def test_what_is_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Sampling(**options)


def pieces(tmp_path: Path, text: str, *stop: str) -> tuple[list[str], bool]:
    """What comes of each byte of a text, and at last of the rest."""
    tokenizer = read_tokenizer(write_tokenizer(tmp_path / "tokenizer.json"))
    stream = TextStream(tokenizer, stop)
    found = []
    for token in tokenizer.encode(text).ids:
        found.append(stream.push(token))
        if stream.stopped:
            return found, True
    return [*found, stream.flush()], stream.stopped


def test_characters_of_several_tokens_come_whole(tmp_path: Path) -> None:
    assert pieces(tmp_path, "aé😀b")[0] == ["a", "", "é", "", "", "", "😀", "b", ""]


def test_half_a_character_at_the_end_is_shown_as_such(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(write_tokenizer(tmp_path / "tokenizer.json"))
    stream = TextStream(tokenizer)
    tokens = tokenizer.encode("aé").ids[:2]
    assert [stream.push(token) for token in tokens] == ["a", ""]
    assert stream.flush() == "\N{REPLACEMENT CHARACTER}"


def test_stop_strings_go_over_tokens(tmp_path: Path) -> None:
    assert pieces(tmp_path, "xSTSTOPy", "STOP") == (["x", "", "", "ST", "", "", ""], True)
    assert pieces(tmp_path, "abST", "STOP") == (["a", "b", "", "", "ST"], False)
    assert pieces(tmp_path, "ab😀c", "😀")[0] == ["a", "b", "", "", "", ""]
