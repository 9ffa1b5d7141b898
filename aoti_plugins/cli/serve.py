"""``aoti-plugins serve``."""

from __future__ import annotations

from pathlib import Path

import click

from aoti_plugins.cli._interrupts import STATUS, interrupts
from aoti_plugins.cli._options import (
    generator_options,
    number_option,
    program_argument,
    template_option,
)
from aoti_plugins.cli._ranks import has_followed
from aoti_plugins.cli._text import echo
from aoti_plugins.errors import ServingError, needs_extra

_END_S = 3.0  # what the model gets for the step that it is in


@click.command()
@program_argument
@generator_options
@template_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. 0.0.0.0 is for everybody who reaches this machine: nobody is asked "
    "for a key.",
)
@number_option("--port", default=8000, most=65535, help="0 takes one that is free.")
@click.option("--model-id", help="The model's name in requests.  [default: the file's, no suffix]")
@number_option(
    "--max-sessions",
    least=1,
    default=4,
    help="Answers that are generated at once, in turns; each has a cache of its own.",
)
@number_option(
    "--max-waiting", default=32, help="More requests that may wait; others get status 429."
)
def command(
    program: Path,
    data_files: tuple[Path, ...],
    tokenizer: Path | None,
    adapters: dict[str, Path],
    template: Path | None,
    host: str,
    port: int,
    model_id: str | None,
    max_sessions: int,
    max_waiting: int,
) -> None:
    """Serve a language model that export made over OpenAI's protocol.

    Clients use the base URL that the command prints: /v1/chat/completions answers, streaming and
    not, and /v1/models names the model. Adapters are models of their own, by their names, over the
    same weights. Ctrl-C ends the server.

    \b
      aoti-plugins serve llama.pte
      aoti-plugins serve llama.pte --adapter sql=llama-sql --adapter poems=llama-poems
      aoti-plugins serve llama.pte --port 9000 --model-id llama --max-sessions 8
    """  # noqa: D301
    if has_followed(program, data_files):
        return
    with needs_extra("serve", ServingError):
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import tokenizers  # noqa: F401
        import uvicorn  # noqa: F401
    from aoti_plugins.generation import ChatTemplate, TextGenerator, chat_template_of
    from aoti_plugins.serving.runtime import TurnsRuntime
    from aoti_plugins.serving.server import listening, serve, url_of
    from aoti_plugins.serving.service import chat_app

    name = model_id or program.stem
    found = ChatTemplate.read(template or chat_template_of(program))
    if name in adapters:
        raise ServingError(f"the model and an adapter are called {name!r}; choose a --model-id")
    with TextGenerator(program, tokenizer, data_files=data_files, adapters=adapters) as generator:
        with listening(host, port) as listener, interrupts.held() as is_interrupted:

            def begins() -> bool:
                echo(f"{name} answers at {url_of(listener)}; Ctrl-C ends it", err=True)
                return not is_interrupted()

            runtime = TurnsRuntime(generator, max_sessions)
            app = chat_app(generator, found, runtime, name, max_sessions + max_waiting)
            serve(app, listener, begins, runtime.close_worker)
        if not runtime.close_worker(_END_S):
            interrupts.happened = True  # the model is in use: the process ends as it is
            interrupts.end_if_it_happened()
        if is_interrupted():
            echo("stopped", err=True)
            click.get_current_context().exit(STATUS)
