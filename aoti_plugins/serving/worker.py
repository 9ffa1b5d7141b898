"""A worker for ExecuTorch's OpenAI server: a program behind lines of JSON.

The server starts it (``--worker-bin``) and has one answer at a time generated. Standard output has
nothing but the protocol; messages go to standard error.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from aoti_plugins.errors import AotiPluginsError, ServingError
from aoti_plugins.generation import TextGenerator
from aoti_plugins.serving.answer import Answer, prompt_tokens
from aoti_plugins.serving.cancellations import Cancellations
from aoti_plugins.serving.worker_requests import AnswerRequest, SessionRequest, read_request

_logger = logging.getLogger(__name__)

Emit = Callable[[dict[str, Any]], None]


class SessionError(ServingError):
    """A session is refused; ``code`` says to the server why."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Worker:
    """Does what the lines ask for, each with one last message, whatever the line holds.

    Args:
        generator: of the model; requests without a session use its own cache.
        max_sessions: how many caches there are at most, that one included.
        cancellations: of answers.
        emit: sends a message.
    """

    def __init__(
        self, generator: TextGenerator, max_sessions: int, cancellations: Cancellations, emit: Emit
    ) -> None:
        self._generator = generator
        self._most_named = max_sessions - 1
        self._cancellations = cancellations
        self._emit = emit
        self._sessions: dict[str, TextGenerator] = {}

    def run(self, lines: Iterable[bytes]) -> None:
        """Say that it is ready, and do what lines ask for until they end."""
        self._emit(
            {
                "ready": True,
                "max_sessions": self._most_named + 1,
                "max_named_sessions": self._most_named,
                "supports_cancel": self._cancellations.are_possible,
            }
        )
        for line in lines:
            if line.strip():
                self._emit(self._done(line))

    def _done(self, line: bytes) -> dict[str, Any]:
        """Do what a line asks for; the last message of it."""
        try:
            request = read_request(line)
            if isinstance(request, SessionRequest):
                return self._session_request(request)
            return self._answer(request)
        except SessionError as error:
            return {"error": str(error), "code": error.code}
        except AotiPluginsError as error:
            return {"error": str(error)}
        except Exception as error:  # of the tokenizer, for one; other requests go on
            _logger.exception("a request failed")
            return {"error": f"{type(error).__name__}: {error}"}

    def _session_request(self, request: SessionRequest) -> dict[str, Any]:
        name = request.session_id
        if request.operation == "open":
            self._session(name)
        elif name in self._sessions:
            self._sessions.pop(name).close()
            if request.operation == "reset":
                self._session(name)
        said = {"open": "opened", "close": "closed", "reset": "reset"}[request.operation]
        return {said: True, "session_id": name}

    def _session(self, name: str) -> TextGenerator:
        if name not in self._sessions:
            if self._most_named == 0:
                raise SessionError("there is one session, without a name", "unsupported_session")
            if len(self._sessions) >= self._most_named:
                what = f"all {self._most_named} sessions with names are open; close one of them"
                raise SessionError(what, "capacity_exhausted")
            self._sessions[name] = self._generator.session()
        return self._sessions[name]

    def _answer(self, request: AnswerRequest) -> dict[str, Any]:
        name = request.session_id
        generator = self._generator if name is None else self._session(name)
        prompt = prompt_tokens(generator.tokenizer, request.text, request.segments)
        answer, is_cancelled = Answer(prompt, request.options), False
        for text in answer.steps(generator):
            if text:
                self._emit({"token": text})
            if self._cancellations.include(request.cancel_id):
                is_cancelled = True
                break
        return _report(answer, is_cancelled)


def _report(answer: Answer, is_cancelled: bool) -> dict[str, Any]:
    """What an answer took, for the server."""
    report = {
        "done": True,
        **answer.report(),
        "session_reset_reason": "exact_prefix" if answer.statistics.cached_tokens else "new",
        "cancelled": is_cancelled,
    }
    if is_cancelled:
        return {**report, "finish_reason": "stop"}
    tokens = answer.resumable_tokens
    return {**report, "generated_token_ids": tokens} if tokens else report


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model_path", "program", type=click.Path(path_type=Path), required=True)
@click.option("--tokenizer_path", "tokenizer", type=click.Path(path_type=Path), required=True)
@click.option(
    "--data_path",
    "data_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A .ptd file with weights of the program; may be repeated.",
)
@click.option(
    "--max_sessions",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Sessions, each with a cache of its own; one of them has no name.",
)
def command(
    program: Path, tokenizer: Path, data_files: tuple[Path, ...], max_sessions: int
) -> None:
    """Generate text for ExecuTorch's OpenAI server, which starts this.

    \b
      python -m executorch.examples.llm_server.python.server --worker-bin aoti-plugins-worker \\
        --model-path llama.pte --tokenizer-path llama.tokenizer.json --hf-tokenizer Llama-3.2-1B
    """  # noqa: D301
    try:
        emit = partial(_emit, _own_output())
        cancellations = Cancellations.from_environment(os.environ)
        with TextGenerator(program, tokenizer, data_files=data_files) as generator:
            Worker(generator, max_sessions, cancellations, emit).run(sys.stdin.buffer)
    except BrokenPipeError:
        return  # the server is gone
    except AotiPluginsError as error:
        raise click.ClickException(str(error)) from error


def _own_output() -> BinaryIO:
    """Standard output for the protocol alone; what others print goes to standard error."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def _emit(output: BinaryIO, message: dict[str, Any]) -> None:
    output.write(json.dumps(message).encode() + b"\n")
    output.flush()


def main() -> None:
    """Run the worker; the entry point of the script ``aoti-plugins-worker``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the server ends on it, and this with it
    command(prog_name="aoti-plugins-worker")
