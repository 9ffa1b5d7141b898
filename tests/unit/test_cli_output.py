"""What the commands print can be read: helps, narrow terminals, terminals of few characters."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from aoti_plugins.cli import _options
from aoti_plugins.cli._output import table
from aoti_plugins.cli.app import app
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system import manager
from aoti_plugins.plugin_system.manager import PluginManager
from aoti_plugins.types import Target


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def help_texts() -> Iterator[str]:
    yield app.help or ""
    for name in ("tune", "selftest"):
        yield import_module(f"aoti_plugins.cli.{name}").command.help


@pytest.mark.parametrize("path", [*commands(app)], ids=" ".join)
def test_a_help_shows_no_markup(path: tuple[str, ...]) -> None:
    output = CliRunner().invoke(app, [*path, "--help"]).output
    assert "\\b" not in output
    assert "\b" not in output


def test_examples_keep_their_lines() -> None:
    shown = [
        CliRunner().invoke(app, [*path, "--help"], terminal_width=80).output
        for path in ((), ("tune",), ("selftest",))
    ]
    for text, output in zip(help_texts(), shown, strict=True):
        examples = [part for part in inspect.cleandoc(text).split("\n\n") if part[0] == "\b"]
        assert examples
        for line in (line for one in examples for line in one.splitlines()[1:]):
            assert f"  {line}\n" in output


ROWS = [
    (
        "0" * 64 + "_so_blob",
        "shared object",
        "134.8 KiB",
        "forward[0]",
        "libexecutorch.so, c.so",
    ),
    ("1" * 64 + "_weights_blob", "weights", "64.0 KiB", "forward[0], prefill[0]", ""),
]
COLUMNS = ("key", "kind", ">size", "used by", "libraries needed")


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 139, 140, 200])
def test_no_word_is_broken(width: int) -> None:
    file = io.StringIO()
    Console(file=file, width=width).print(table("Blobs", COLUMNS, ROWS))
    output = file.getvalue()
    assert all(len(line.rstrip()) <= width for line in output.splitlines())
    for row in ROWS:
        for word in " ".join(row[1:]).split():
            assert word in output, output
    shown = "0" * 64 + "_so_blob" if width >= 140 else "0" * 12 + "…_so_blob"
    assert shown in output


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = (sys.executable, "-m", "aoti_plugins", *arguments)
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, check=False)


ASCII = {
    "streams": {"PYTHONIOENCODING": "ascii"},
    "locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("variables", ASCII.values(), ids=ASCII)
def test_an_ascii_terminal_shows_any_name(tmp_path: Path, variables: dict[str, str]) -> None:
    result = run("run", str(tmp_path / "größe 模型.pte"), **variables)
    assert result.returncode == 1
    assert result.stderr.startswith(b"error: there is no file ")
    assert result.stderr.isascii()
    assert b"Traceback" not in result.stderr


def test_tables_and_json_in_ascii(tmp_path: Path) -> None:
    records = {"größe": 1, "µ": "×"}
    entry = {"kind": "kernel", "key": records, "config": {"ä": 1}, "time_us": 2.5}
    entry["made_with"] = {"gpu": "Größe"}
    content = {"format": "aoti_plugins tuning record", "version": 1, "entries": [entry]}
    (tmp_path / "größe.json").write_text(json.dumps(content), "utf-8")
    shown = run("tune", "show", str(tmp_path / "größe.json"), PYTHONIOENCODING="ascii")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.isascii()
    assert b"gpu Gr\\xf6\\xdfe" in shown.stdout
    assert b">us" in shown.stdout or b" us" in shown.stdout
    as_json = run("tune", "show", "--json", str(tmp_path / "größe.json"), PYTHONIOENCODING="ascii")
    assert as_json.stdout.isascii()
    assert json.loads(as_json.stdout)[0]["made_with"] == {"gpu": "Größe"}


@pytest.mark.parametrize(
    ("platform", "gpus", "device"),
    [("linux", 0, "cpu"), ("linux", 2, "cuda"), ("darwin", 0, "mps")],
)
def test_a_selftest_is_for_this_machine(
    monkeypatch: pytest.MonkeyPatch, platform: str, gpus: int, device: str
) -> None:
    monkeypatch.setattr(_options.sys, "platform", platform)
    monkeypatch.setattr(_options, "_nvidia_gpus", lambda: gpus)
    assert _options.device_of_this_machine() == device


class Failing:
    """Fails in two hooks, and is right in a third."""

    AOTI_PLUGINS_API = 1

    @hookimpl
    def aoti_targets(self, device: str) -> list[Target]:
        return [Target("acme", device, "x86_64")]

    @hookimpl
    def aoti_decompositions(self, device: str) -> dict[object, object]:
        raise RuntimeError("by design")

    @hookimpl
    def aoti_inductor_options(self, device: str) -> list[str]:
        return ["no mapping"]


class Conflicting:
    AOTI_PLUGINS_API = 1

    @hookimpl
    def aoti_inductor_options(self, device: str) -> dict[str, object]:
        return {"compile_threads": 77}


@pytest.mark.parametrize("command", ["plugins", "doctor"])
@pytest.mark.parametrize("plugin", [Failing, Conflicting])
def test_plugins_that_fail_are_said(
    monkeypatch: pytest.MonkeyPatch, command: str, plugin: type[object]
) -> None:
    """A hook that fails, or returns something else, ends every lowering."""
    load = PluginManager._load_installed

    def with_one_more(self: PluginManager, block: object) -> object:
        errors = load(self, block)  # type: ignore[arg-type]
        self.register(plugin(), "acme")
        return errors

    monkeypatch.setattr(PluginManager, "_load_installed", with_one_more)
    # The process's own, should it be made by the command, goes with the test.
    monkeypatch.setattr(manager, "_manager", None)
    result = CliRunner().invoke(app, [command, "--json"])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    if command == "plugins":
        states = {one["name"]: one["state"] for one in report["plugins"]}
        assert states["acme"] == ("broken" if plugin is Failing else "ok")
        text = " ".join([*report["conflicts"], *(p["error"] or "" for p in report["plugins"])])
        assert report["provided"]["cpu"]["decompositions"]  # of the others
    else:
        (finding,) = (one for one in report["findings"] if one["name"] == "plugins")
        text = finding["found"]
    if plugin is Failing:
        assert "'acme' failed in hook 'aoti_decompositions'" in text
        assert "RuntimeError: by design" in text
        assert "'acme' failed in hook 'aoti_inductor_options'" in text
    else:
        assert "Inductor option 'compile_threads'" in text
