"""``aoti-plugins chat``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from aoti_plugins.cli._interrupts import interrupts
from aoti_plugins.cli._options import generator_options, program_argument, template_option
from aoti_plugins.cli._ranks import has_followed
from aoti_plugins.cli._sampling import (
    answer_text,
    bandwidth_share,
    sampling_options,
    speculation_option,
)
from aoti_plugins.cli._text import echo
from aoti_plugins.errors import ProgramError
from aoti_plugins.generation import Chat, ChatTemplate, Sampling, TextGenerator, chat_template_of


@click.command()
@program_argument
@generator_options
@template_option
@click.option("--system", help="What the model is told first.")
@click.option("--max-new-tokens", type=click.IntRange(min=1), help="[default: what fits]")
@speculation_option
@sampling_options
@click.option("--stop", multiple=True, help="A string that ends an answer; may be repeated.")
@click.option("--statistics", is_flag=True, help="Say after each answer what it took.")
def command(
    program: Path,
    data_files: tuple[Path, ...],
    tokenizer: Path | None,
    adapters: dict[str, Path],
    template: Path | None,
    system: str | None,
    max_new_tokens: int | None,
    speculate: bool,
    sampling: Sampling,
    stop: tuple[str, ...],
    statistics: bool,
) -> None:
    """Talk with a language model that export made.

    Each line of standard input is one message. Ctrl-C ends an answer, and at the prompt the
    command; so does the end of the input. /clear forgets what was said. /adapter NAME goes on with
    one of several adapters, /adapter alone without; the first one is in use at the beginning.

    \b
      aoti-plugins chat llama.pte --system "Answer in one sentence." --temperature 0.7
      echo "What is 2 + 2?" | aoti-plugins chat llama.pte
    """  # noqa: D301
    if has_followed(program, data_files):
        return
    found = ChatTemplate.read(template or chat_template_of(program))
    with TextGenerator(
        program, tokenizer, data_files=data_files, speculate=speculate, adapters=adapters
    ) as generator:
        generator.use_adapter(next(iter(adapters), None))
        chat = Chat(generator, found, system)
        for line in _lines():
            if line == "/clear":
                chat.clear()
                continue
            try:
                if line.split()[0] == "/adapter":
                    generator.use_adapter(line.removeprefix("/adapter").strip() or None)
                    continue
                pieces = chat.reply(
                    line, sampling=sampling, max_new_tokens=max_new_tokens, stop=stop
                )
            except ProgramError as error:
                hint = "" if line.startswith("/") else "; /clear begins anew"
                echo(f"{error}{hint}", err=True)
                continue
            _show(pieces)
            if statistics:
                share = bandwidth_share(generator)
                echo(answer_text(generator.statistics, share), err=True)


def _lines() -> Iterator[str]:
    """What the user says; asks for it on a terminal."""
    asks = sys.stdin.isatty()
    while True:
        if asks:
            click.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _show(pieces: Iterator[str]) -> None:
    """Write an answer as it comes; Ctrl-C ends it."""
    with interrupts.held() as is_interrupted:
        for piece in pieces:
            echo(piece, end="")
            if is_interrupted():
                break
    close = getattr(pieces, "close", None)
    if close is not None:
        close()
    echo("")
