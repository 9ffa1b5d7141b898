"""``aoti-plugins generate``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from aoti_plugins.cli._options import data_option, program_argument
from aoti_plugins.cli._output import json_option, print_json, seconds_text
from aoti_plugins.cli._text import echo
from aoti_plugins.generation import Sampling, TextGenerator


@click.command()
@program_argument
@click.argument("prompt")
@data_option
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="A tokenizer.json.  [default: what export wrote beside the program]",
)
@click.option("--max-new-tokens", type=click.IntRange(min=1), help="[default: what fits]")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="0 takes the likeliest token.",
)
@click.option("--top-k", type=click.IntRange(min=0), default=0, help="Of so many tokens only.")
@click.option(
    "--top-p",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=1.0,
    help="Of the likeliest tokens with this probability only.",
)
@click.option(
    "--min-p",
    type=click.FloatRange(min=0, max=1),
    default=0.0,
    help="Of tokens with this share of the likeliest one's probability only.",
)
@click.option(
    "--repetition-penalty",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    help="Over 1: tokens that were there become less likely.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the random numbers.")
@click.option("--stop", multiple=True, help="A string that ends the text; may be repeated.")
@json_option
def command(
    program: Path,
    prompt: str,
    data_files: tuple[Path, ...],
    tokenizer: Path | None,
    max_new_tokens: int | None,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition_penalty: float,
    seed: int | None,
    stop: tuple[str, ...],
    as_json: bool,
) -> None:
    """Generate text after PROMPT with a program that export made.

    The text goes to standard output as it comes, what it took to standard error.

    \b
      aoti-plugins generate llama.pte "Once upon a time" --max-new-tokens 64
      aoti-plugins generate llama.pte "Q: Why? A:" --temperature 0.8 --top-p 0.9 --seed 1 --stop Q:
    """  # noqa: D301
    sampling = Sampling(
        repetition_penalty=repetition_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
    )
    with TextGenerator(program, tokenizer, data_files=data_files) as generator:
        text = []
        for piece in generator.stream(
            prompt, sampling=sampling, max_new_tokens=max_new_tokens, stop=stop
        ):
            text.append(piece)
            if not as_json:
                sys.stdout.write(piece)
                sys.stdout.flush()
        found = generator.statistics
    report = {**vars(found), "tokens_per_s": found.tokens_per_s}
    if as_json:
        print_json({"text": "".join(text), **report})
        return
    echo("")
    echo(
        f"{found.prompt_tokens} tokens read, {found.new_tokens} generated ({found.reason}); "
        f"first after {seconds_text(found.first_token_s)}, then {found.tokens_per_s:.1f} tokens/s",
        err=True,
    )
