"""The command group: loads commands lazily and turns our errors into messages."""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn, cast

import click

from aoti_plugins.cli._interrupts import STATUS, interrupts
from aoti_plugins.cli._text import echo
from aoti_plugins.errors import AotiPluginsError
from aoti_plugins.log_level import chosen_level, log_to_stderr

_DEFAULT_NAME = "aoti-plugins"

# A line for the list of commands, by command. Their modules are imported when they are asked for,
# so that the help and the quick commands do not wait for torch.
_COMMANDS = {
    "lower": "Turn an exported model (.pt2) into a program (.pte).",
    "plan": "Show what lowering would do; compiles nothing.",
    "export": "Turn a language model of transformers into a program (.pte).",
    "generate": "Generate text with such a program.",
    "chat": "Talk with such a program.",
    "serve": "Serve such a program over OpenAI's protocol.",
    "transcribe": "Write down speech with such a program, of a Whisper.",
    "run": "Run a program on given or random inputs and time it.",
    "profile": "Run a program and show where the time goes, kernel by kernel.",
    "inspect": "Show what a program holds: methods, delegates, blobs, constants.",
    "compare": "Compare a program with eager PyTorch, and find the op they part at.",
    "sign": "Sign a program: its code, its weights, the whole file.",
    "verify": "Compare a program with its digests and signatures.",
    "tune": "Measure kernels on this machine's GPU; merge and show such records.",
    "plugins": "List the installed plugins and what each provides.",
    "new-plugin": "Make a package with hooks: Python, Triton or C++ and CUDA.",
    "selftest": "Try a machine with programs that were made elsewhere.",
    "doctor": "Check this machine: what is there, what is missing, for what.",
}


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = import_module(f"aoti_plugins.cli.{name.replace('-', '_')}")
        return cast(click.Command, module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        interrupts.command = _DEFAULT_NAME
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BaseException as error:
            _end(ctx, error)
            raise
        finally:
            interrupts.command = ""


def _end(ctx: click.Context, error: BaseException) -> None:
    """End with a message, if there is one for the exception; it is raised otherwise."""
    if interrupts.happened or isinstance(error, KeyboardInterrupt):
        # Whatever a library made of it.
        interrupts.tell()
        if ctx.params.get("debug"):
            traceback.print_exception(error)
        ctx.exit(STATUS)
    if ctx.params.get("debug"):
        return
    if isinstance(error, AotiPluginsError):
        _fail(ctx, str(error))
    if isinstance(error, OSError) and error.errno != errno.EPIPE:  # click ends quietly for that
        _fail(ctx, _explained(error))


def _fail(ctx: click.Context, message: str) -> NoReturn:
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    echo(message, err=True)
    ctx.exit(1)


def _explained(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{reason}: {error.filename!r}" if error.filename else reason


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--debug", is_flag=True, help="Show tracebacks and debug messages; as AOTI_PLUGINS_LOG=debug."
)
@click.version_option(package_name="aoti-plugins", message="%(prog)s %(version)s")
def app(debug: bool) -> None:
    """AOTInductor delegates for ExecuTorch: lower models, run programs, look into both.

    \b
    A first round:
      aoti-plugins doctor
      aoti-plugins lower model.pt2 -o model.pte
      aoti-plugins inspect model.pte
      aoti-plugins run model.pte --repeat 100

    \b
    Environment, also of Python and C++ programs:
      AOTI_PLUGINS_LOG=debug|info|warning|error|off   messages shown, native ones too
      AOTI_PLUGINS_PROGRESS=on|off|auto               stages of a lowering from Python
    """  # noqa: D301
    interrupts.command = click.get_current_context().invoked_subcommand or _DEFAULT_NAME
    chosen = chosen_level()
    log_to_stderr(logging.DEBUG if debug else logging.WARNING if chosen is None else chosen)
