"""``aoti-plugins generate``."""

from __future__ import annotations

from pathlib import Path

import click

from aoti_plugins.cli._options import generator_options, program_argument
from aoti_plugins.cli._output import json_option, print_json
from aoti_plugins.cli._ranks import has_followed
from aoti_plugins.cli._sampling import (
    answer_text,
    bandwidth_share,
    sampling_options,
    speculation_option,
)
from aoti_plugins.cli._text import echo
from aoti_plugins.generation import Sampling, TextGenerator


@click.command()
@program_argument
@click.argument("prompt")
@generator_options
@click.option("--max-new-tokens", type=click.IntRange(min=1), help="[default: what fits]")
@speculation_option
@sampling_options
@click.option("--stop", multiple=True, help="A string that ends the text; may be repeated.")
@json_option
def command(
    program: Path,
    prompt: str,
    data_files: tuple[Path, ...],
    tokenizer: Path | None,
    adapters: dict[str, Path],
    max_new_tokens: int | None,
    speculate: bool,
    sampling: Sampling,
    stop: tuple[str, ...],
    as_json: bool,
) -> None:
    """Generate text after PROMPT with a program that export made.

    The text goes to standard output as it comes, what it took to standard error.

    \b
      aoti-plugins generate llama.pte "Once upon a time" --max-new-tokens 64
      aoti-plugins generate llama.pte "Q: Why? A:" --temperature 0.8 --top-p 0.9 --seed 1 --stop Q:
    """  # noqa: D301
    if has_followed(program, data_files):
        return
    if len(adapters) > 1:
        raise click.UsageError(f"one --adapter can be used, found {len(adapters)}")
    with TextGenerator(
        program, tokenizer, data_files=data_files, speculate=speculate, adapters=adapters
    ) as generator:
        generator.use_adapter(next(iter(adapters), None))
        text = []
        for piece in generator.stream(
            prompt, sampling=sampling, max_new_tokens=max_new_tokens, stop=stop
        ):
            text.append(piece)
            if not as_json:
                echo(piece, end="")
        found, share = generator.statistics, bandwidth_share(generator)
    rates = {"tokens_per_s": found.tokens_per_s, "bandwidth_share": share}
    report = {**vars(found), **rates}
    if as_json:
        print_json({"text": "".join(text), **report})
        return
    echo("")
    echo(answer_text(found, share), err=True)
