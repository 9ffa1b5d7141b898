"""Where a sequence repeats itself."""

from __future__ import annotations

import random

import pytest

from aoti_plugins.lowering.layers.runs import Run, longest_run


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("xabababy", Run(1, 2, 3, 0)),
        ("xabcabcabcab", Run(1, 3, 3, 2)),
        ("aaaa", Run(0, 1, 4, 0)),
        ("abcdabce", None),
        ("aabaab", None),
        ("", None),
        ("a", None),
    ],
)
def test_of_texts(text: str, found: Run | None) -> None:
    assert longest_run(text, 3) == found


def test_two_are_enough_if_so_asked() -> None:
    assert longest_run("xaabaaby", 2) == Run(1, 3, 2, 0)


def test_none_is_longer() -> None:
    """Of random texts, against what trying all of them finds."""
    numbers = random.Random(0)
    for _ in range(300):
        text = "".join(numbers.choices("ab", k=numbers.randrange(12)))
        found = longest_run(text, 2)
        covered = [
            stop - start
            for start in range(len(text))
            for stop in range(start + 1, len(text) + 1)
            for period in range(1, (stop - start) // 2 + 1)
            if text[start : stop - period] == text[start + period : stop]
        ]
        assert (found.end + found.rest - found.start if found else 0) == max(covered, default=0)
