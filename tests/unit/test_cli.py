"""The command line, as far as it needs no compiled program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner, Result

from aoti_plugins.cli import _checks
from aoti_plugins.cli._checks import LOWER_CPU, LOWER_CUDA, RUN_CPU, Finding
from aoti_plugins.cli._options import parse_options
from aoti_plugins.cli._output import nbytes_text
from aoti_plugins.cli.app import app
from aoti_plugins.errors import LoweringError, ProgramError
from aoti_plugins.lowering.artifacts.cache_folder import CACHE_DIR_VARIABLE
from aoti_plugins.units import seconds_text

COMMANDS = ("lower", "run", "inspect", "plugins", "doctor")


pytestmark = pytest.mark.usefixtures("restored_logging")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="aoti-plugins")


def test_help_lists_every_command() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Usage: aoti-plugins {command} " in result.output
    assert "--json" in result.output


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from aoti_plugins.cli.app import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "print([n for n in ('torch', 'executorch', 'numpy', 'rich') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_unknown_command() -> None:
    result = invoke("launch")
    assert result.exit_code == 2
    assert "No such command 'launch'" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "none.pte"), "error: there is no file 'none.pte'\n"),
        (("inspect", "none.pte"), "error: there is no file 'none.pte'\n"),
        (("lower", "none.pt2"), "error: there is no file 'none.pt2'\n"),
    ],
)
def test_missing_file(arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert result.stderr == message
    assert isinstance(result.exception, SystemExit)


def test_missing_output_folder(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/models/model.json", "{}")
    result = invoke("lower", str(tmp_path / "model.pt2"), "-o", str(tmp_path / "no" / "model.pte"))
    assert result.exit_code == 1
    assert "there is no folder" in result.stderr


def test_debug_shows_the_exception() -> None:
    result = invoke("--debug", "run", "none.pte")
    assert isinstance(result.exception, ProgramError)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"hello world",
            "is no ExecuTorch program: found b'o wo' at byte 4, expected an identifier",
        ),
        (b"", "is empty. Copy it again or lower the model again."),
        (
            b"\x40\0\0\0ET12eh00"
            + b"\x20\0\0\0"
            + (64).to_bytes(8, "little")
            + (64).to_bytes(8, "little")
            + (1000).to_bytes(8, "little"),
            "is truncated: found 40 bytes, expected 1064. Copy it again or lower the model again.",
        ),
        (b"\xff\xff\xff\x7fET12" + bytes(100), "cannot be read as an ExecuTorch program"),
    ],
    ids=["text", "empty", "truncated", "damaged"],
)
def test_inspect_refuses(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "program.pte"
    path.write_bytes(data)
    result = invoke("inspect", str(path))
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", "")


def partitioner(
    *,
    target: str | None = None,
    targets: tuple[str, ...] = (),
    external_data: bool | str = False,
    debug_info: bool = False,
    level: int = 1,
    compile_specs: Any = None,
) -> None:
    """Stands for a device's partitioner."""


def test_options_take_the_types_of_the_partitioner() -> None:
    texts = ("target=a", "targets=a, b", "external-data=tag", "debug_info=yes", "level=3")
    assert parse_options(texts, partitioner) == {
        "target": "a",
        "targets": ("a", "b"),
        "external_data": "tag",
        "debug_info": True,
        "level": 3,
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("speed=9",), r"speed=9: expected name=value with a name of: debug_info, external_data"),
        (("target",), r"--option target: expected name=value"),
        (("compile_specs=x",), r"expected name=value"),
        (("level=a",), r"--option level=a: expected a number, found 'a'"),
        (("debug_info=perhaps",), r"expected true or false, found 'perhaps'"),
        (("target=a", "target=b"), r"--option target=b: target is given twice"),
    ],
)
def test_wrong_options(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        parse_options(texts, partitioner)


FINE = Finding("python", True, "3.11", (LOWER_CPU, RUN_CPU))
NO_COMPILER = Finding("C++ compiler", False, "no g++", (LOWER_CPU,), "Install g++.")
NO_CUDA = Finding("CUDA driver", False, "none", (LOWER_CUDA,), "Install it.")


@pytest.mark.parametrize(
    ("findings", "arguments", "exit_code"),
    [
        ([FINE], (), 0),
        ([FINE, NO_CUDA], (), 0),
        ([FINE, NO_COMPILER], (), 1),
        ([FINE, NO_COMPILER], ("--run-only",), 0),
    ],
)
def test_doctor_fails_only_for_the_cpu_path(
    monkeypatch: pytest.MonkeyPatch,
    findings: list[Finding],
    arguments: tuple[str, ...],
    exit_code: int,
) -> None:
    monkeypatch.setattr("aoti_plugins.cli.doctor.run_checks", lambda: findings)
    result = invoke("doctor", *arguments)
    assert result.exit_code == exit_code, result.output
    report = invoke("doctor", "--json", *arguments)
    assert report.exit_code == exit_code
    assert json.loads(report.stdout)["ok"] is not bool(exit_code)
    for finding in findings:
        assert finding.name in result.output
        assert finding.advice in result.output


def test_doctor_looks_at_everything_named_in_the_help() -> None:
    names = {finding.name for finding in _checks.run_checks()}
    assert {"python", "C++ compiler", "torch", "executorch", "triton", "plugins"} <= names
    assert {"delegate for cpu", "runner", "CUDA headers", "CUDA driver", "compile cache"} <= names


def test_doctor_finds_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    (finding,) = _checks._compiler()
    assert not finding.ok
    assert finding.found == "$CXX is 'no-such-compiler', which is not there"
    assert "pip install ziglang" in finding.advice


def test_doctor_names_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))  # without a g++
    (finding,) = _checks._compiler()
    assert finding.ok
    assert finding.found.startswith("Zig's clang version ")


def test_doctor_finds_an_old_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aoti_plugins.cli._checks.version", lambda name: "2.9.1+cpu")
    finding = _checks._package("torch", (LOWER_CPU,), "upgrade", (2, 11))
    assert (finding.ok, finding.found, finding.advice) == (False, "2.9.1+cpu", "upgrade")


def test_doctor_weighs_the_compile_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "not yet"))
    (finding,) = _checks._compile_cache()
    assert finding.ok
    assert finding.found == f"{tmp_path / 'not yet'}, 0 B"
    (tmp_path / "not yet" / "blobs").mkdir(parents=True)
    (tmp_path / "not yet" / "blobs" / "blob.so").write_bytes(bytes(2048))
    (finding,) = _checks._compile_cache()
    assert finding.found.endswith(", 2.0 KiB")
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "not yet" / "blobs" / "blob.so"))
    (finding,) = _checks._compile_cache()
    assert not finding.ok
    assert CACHE_DIR_VARIABLE in finding.advice


def test_a_failing_check_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def _strange_check() -> list[Finding]:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr(_checks, "_CHECKS", (_strange_check,))
    (finding,) = _checks.run_checks()
    assert finding.name == "strange check"
    assert "ZeroDivisionError: by design" in finding.found


def test_plugins_names_ours() -> None:
    report = json.loads(invoke("plugins", "--json").stdout)
    states = {plugin["name"]: plugin["state"] for plugin in report["plugins"]}
    assert states["cpu"] == "ok"
    assert states["blob_names"] == "ok"
    assert report["conflicts"] == []
    assert report["provided"]["cpu"]["targets"]
    table = invoke("plugins")
    assert table.exit_code == 0
    assert "aoti-plugins" in table.output


def test_plugins_shows_blocked_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTI_PLUGINS_BLOCK", "blob_names")
    report = json.loads(invoke("plugins", "--json").stdout)
    states = {plugin["name"]: plugin["state"] for plugin in report["plugins"]}
    assert states["blob_names"] == "blocked"


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 20, "3.0 MiB"),
        (5 << 40, "5120.0 GiB"),
    ],
)
def test_sizes(nbytes: int, text: str) -> None:
    assert nbytes_text(nbytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2e-6, "2.0 µs"), (0.0125, "12.50 ms"), (61.2, "61.20 s")]
)
def test_times(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
