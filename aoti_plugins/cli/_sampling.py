"""Options that say how tokens are chosen, of the commands that generate text."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import click

from aoti_plugins.cli._options import together
from aoti_plugins.generation import Sampling, Statistics, TextGenerator
from aoti_plugins.profiling.machine import gpu_bandwidth, measured_bandwidth
from aoti_plugins.profiling.report import share_text
from aoti_plugins.units import seconds_text

_options = together(
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

    return _options(with_sampling)


def bandwidth_share(generator: TextGenerator) -> float | None:
    """The share of the memory's bandwidth at which the last answer's tokens have read the weights.

    The memory's bandwidth is what copies on all processors reach, or, of an NVIDIA GPU, the first
    one, what its driver says. ``None`` where that or what a token reads is not known, and where
    several tokens were read at once.
    """
    found = generator.statistics
    bytes_per_s = generator.token_nbytes * found.tokens_per_s
    if not bytes_per_s or found.guessed_tokens:
        return None
    bandwidth = memory_bandwidth(generator.device)
    return bytes_per_s / bandwidth if bandwidth else None


@cache
def memory_bandwidth(device: str | None) -> float | None:
    """Bytes a second of a device's memory, found out once; ``None`` where nobody says it."""
    if device == "cpu":
        return measured_bandwidth(os.cpu_count() or 1)
    return gpu_bandwidth() if device == "cuda" else None


def answer_text(found: Statistics, share: float | None = None) -> str:
    """What an answer took, in one line.

    Args:
        found: its statistics.
        share: of ``bandwidth_share``.
    """
    cached = f" ({found.cached_tokens} of them before)" if found.cached_tokens else ""
    guessed = (
        f"; {found.accepted_tokens} of {found.guessed_tokens} guessed tokens were right"
        if found.guessed_tokens
        else ""
    )
    of_memory = f", weights at {share_text(share)} of the memory's bandwidth" if share else ""
    return (
        f"{found.prompt_tokens} tokens read{cached}, {found.new_tokens} generated "
        f"({found.reason}); first after {seconds_text(found.first_token_s)}, then "
        f"{found.tokens_per_s:.1f} tokens/s{guessed}{of_memory}"
    )
