"""Options that say how tokens are chosen, of the commands that generate text."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from aoti_plugins.generation import Sampling, Statistics
from aoti_plugins.units import seconds_text

_OPTIONS = (
    click.option(
        "--temperature",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        help="0 takes the likeliest token.",
    ),
    click.option("--top-k", type=click.IntRange(min=0), default=0, help="Of so many tokens only."),
    click.option(
        "--top-p",
        type=click.FloatRange(min=0, max=1, min_open=True),
        default=1.0,
        help="Of the likeliest tokens with this probability only.",
    ),
    click.option(
        "--min-p",
        type=click.FloatRange(min=0, max=1),
        default=0.0,
        help="Of tokens with this share of the likeliest one's probability only.",
    ),
    click.option(
        "--repetition-penalty",
        type=click.FloatRange(min=0, min_open=True),
        default=1.0,
        help="Over 1: tokens that were there become less likely.",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Of the random numbers."),
)
speculation_option = click.option(
    "--speculate/--no-speculate",
    default=True,
    help="Whether tokens are guessed from the text and checked, several in a call, where the "
    "program was exported with --speculate; the text is the same.  [default: yes]",
)
_NAMES = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


def sampling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; it gets them as ``sampling``."""

    @wraps(command)
    def with_sampling(**options: Any) -> Any:
        chosen = {name: options.pop(name) for name in _NAMES}
        return command(sampling=Sampling(**chosen), **options)

    for option in reversed(_OPTIONS):
        with_sampling = option(with_sampling)
    return with_sampling


def answer_text(found: Statistics) -> str:
    """What an answer took, in one line."""
    cached = f" ({found.cached_tokens} of them before)" if found.cached_tokens else ""
    guessed = (
        f"; {found.accepted_tokens} of {found.guessed_tokens} guessed tokens were right"
        if found.guessed_tokens
        else ""
    )
    return (
        f"{found.prompt_tokens} tokens read{cached}, {found.new_tokens} generated "
        f"({found.reason}); first after {seconds_text(found.first_token_s)}, then "
        f"{found.tokens_per_s:.1f} tokens/s{guessed}"
    )
