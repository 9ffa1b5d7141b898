"""What is guessed from a text about how it goes on."""

from __future__ import annotations

from aoti_plugins.generation.prompt_lookup import PromptLookup


def test_a_text_goes_on_as_it_did_after_the_same_tokens() -> None:
    lookup = PromptLookup(4)
    assert lookup.guess([1, 2, 3, 4, 5, 9, 1, 2, 3], 8) == [4, 5, 9, 1]
    assert lookup.guess([1, 2, 3, 4, 5, 9, 1, 2, 3, 4], 2) == [5, 9]
    assert lookup.guess([1, 2, 3, 4, 5, 9, 1, 2, 3, 4], 0) == []


def test_the_last_place_and_the_longest_match_count() -> None:
    assert PromptLookup(1).guess([1, 2, 5, 1, 2, 6, 1, 2], 1) == [6]
    assert PromptLookup(1).guess([0, 1, 2, 5, 9, 1, 2, 6, 0, 1, 2], 1) == [5]


def test_a_repetition_is_guessed_to_go_on() -> None:
    assert PromptLookup(5).guess([7, 8, 7, 8], 9) == [7, 8, 7, 8, 7]
    assert PromptLookup(3).guess([4, 4, 4], 9) == [4, 4, 4]


def test_nothing_is_guessed_after_new_tokens() -> None:
    for tokens in ([], [1], [1, 2], [1, 2, 3, 4]):
        assert PromptLookup(4).guess(tokens, 4) == []


def test_guesses_are_as_long_as_they_have_been_right() -> None:
    lookup, text = PromptLookup(8), [1, 2] * 10
    widths = []
    for accepted in (0, 1, 3, 8, 0):
        lookup.learn(accepted)
        widths.append(len(lookup.guess(text, 99)))
    assert widths == [1, 3, 7, 8, 1]
