"""AOTI_PLUGINS_LOG: one switch for the loggers of Python and the native log."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from filelock import FileLock
from support import ROOT, lower, needs_executorchs_extension

from aoti_plugins.cli.app import app
from aoti_plugins.log_level import LEVELS, LOG_VARIABLE

# A message of each kind: of ours at four levels, and an error of ExecuTorch's log.
MESSAGES = """
    import logging, sys
    import aoti_plugins
    from aoti_plugins.errors import ProgramError
    from aoti_plugins.runtime import Program

    logger = logging.getLogger("aoti_plugins.somewhere")
    for level in ("debug", "info", "warning", "error"):
        getattr(logger, level)("this is %s", level)
    import numpy
    try:
        Program(sys.argv[1])(numpy.zeros((2, 4), "f"), 4)
    except ProgramError:
        print("refused")
"""


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor


@pytest.fixture(scope="module")
def program(shared_dir: Path) -> Path:
    """A program with a constant, of which ExecuTorch logs that an input is another one."""
    path = shared_dir / "scaled.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            path.write_bytes(lower(Scaled(), (torch.ones(2, 4), 3)).buffer)
    return path


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("", ["warning", "error", "native"]),  # Python's and ExecuTorch's own defaults
        ("debug", ["debug", "info", "warning", "error", "native"]),
        ("warning", ["warning", "error", "native"]),
        ("error", ["error", "native"]),
        ("off", []),
    ],
)
def test_what_is_shown(
    run_python: Callable[..., str], program: Path, level: str, shown: list[str]
) -> None:
    text = run_python(MESSAGES, program, AOTI_PLUGINS_LOG=level)
    assert "refused" in text
    found = re.findall(r"this is (\w+)", text)
    found += ["native"] if re.search(r"^E \d\d:.* executorch:", text, re.MULTILINE) else []
    assert found == shown
    assert "register_pal" not in text


def test_a_value_that_means_nothing(run_python: Callable[..., str], program: Path) -> None:
    text = run_python(MESSAGES, program, AOTI_PLUGINS_LOG="loud")
    assert "AOTI_PLUGINS_LOG is 'loud', expected one of: debug, info, warning, error, off" in text
    assert "AOTI_PLUGINS_LOG is 'loud', expected debug, info, warning, error or off" in text
    assert "this is warning" in text


STOCK = """
    import sys
    {first}
    {second}
    import torch
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
    try:
        method.execute([torch.zeros(2, 4), 4])
    except RuntimeError:
        print("refused")
"""
REGISTER = "from aoti_plugins.runtime import register; register()"
IMPORT = "import executorch.runtime"


@needs_executorchs_extension
@pytest.mark.parametrize(("first", "second"), [(REGISTER, IMPORT), (IMPORT, REGISTER)])
def test_executorchs_own_runtime(
    run_python: Callable[..., str], program: Path, first: str, second: str
) -> None:
    """Its extension replaces what writes the log, before or after ours."""
    script = STOCK.format(first=first, second=second)
    text = run_python(script, program, AOTI_PLUGINS_LOG="off")
    assert "refused" in text
    assert "method.cpp" not in text


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(("value", "options", "shown"), [
    ("", (), False), ("info", (), True), ("error", ("--debug",), True),
])  # fmt: skip
def test_the_command_line(
    monkeypatch: pytest.MonkeyPatch, value: str, options: tuple[str, ...], shown: bool
) -> None:
    monkeypatch.setenv(LOG_VARIABLE, value)
    assert CliRunner().invoke(app, [*options, "plugins", "--help"]).exit_code == 0
    assert logging.getLogger("aoti_plugins.lowering").isEnabledFor(logging.INFO) is shown


def test_both_sides_know_the_same_levels() -> None:
    text = (ROOT / "native" / "src" / "delegate" / "log_level.cpp").read_text()
    assert re.findall(r'\{"(\w+)", "[A-Z?]*"\}', text) == list(LEVELS)
    assert f'"{LOG_VARIABLE}"' in text
