"""A file that is no exported model, or of another version, is one line that says what it is."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from click.testing import CliRunner

from aoti_plugins.cli._pt2 import load_model
from aoti_plugins.cli.app import app
from aoti_plugins.errors import LoweringError


@pytest.fixture(scope="module")
def saved() -> bytes:
    file = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(3),)), file)
    return file.getvalue()


def edited(saved: bytes, edit: Callable[[str, bytes], bytes | None]) -> bytes:
    """The archive with other contents; ``None`` drops an entry."""
    file = io.BytesIO()
    with ZipFile(io.BytesIO(saved)) as old, ZipFile(file, "w") as new:
        for name in old.namelist():
            data = edit(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return file.getvalue()


def of_schema(major: int) -> Callable[[str, bytes], bytes]:
    def edit(name: str, data: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return data
        model = json.loads(data)
        model |= {"schema_version": {"major": major, "minor": 3}, "torch_version": "9.8.7"}
        return json.dumps(model).encode()

    return edit


def without_model(name: str, data: bytes) -> bytes | None:
    return None if "models/" in name else data


def torch_saved() -> bytes:
    file = io.BytesIO()
    torch.save([torch.ones(3)], file)
    return file.getvalue()


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda saved: b"", "is empty; expected what torch.export.save wrote"),
    "text": (lambda saved: b"hello", "is no exported model: it begins with b'hello'"),
    "cut off": (lambda saved: saved[:-100], "is cut off or damaged"),
    "changed bytes": (
        lambda saved: saved.replace(b'"graph_module"', b'"graph_mXdule"'),
        "cannot be read: ",
    ),
    "no model in it": (lambda saved: edited(saved, without_model), "without an exported model"),
    "of torch.save": (lambda saved: torch_saved(), "without an exported model, such as torch.save"),
    "a newer schema": (
        lambda saved: edited(saved, of_schema(99)),
        f"was exported with torch 9.8.7, in version 99.3 of its schema; this torch "
        f"{torch.__version__} reads version ",
    ),
    "an older schema": (lambda saved: edited(saved, of_schema(1)), "in version 1.3 of its schema"),
    "a program": (lambda saved: b"\x40\0\0\0ET12eh00", "is a program already"),
}


@pytest.mark.parametrize(("change", "message"), DAMAGED.values(), ids=DAMAGED)
def test_what_a_file_is(
    saved: bytes,
    change: Callable[[bytes], bytes],
    message: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(change(saved))
    with caplog.at_level(logging.DEBUG), pytest.raises(LoweringError) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"'{path}' ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not any(record.exc_info for record in caplog.records)


def test_an_archive_of_compiled_code(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/data/aotinductor/model/model.wrapper.so", b"")
    with pytest.raises(LoweringError, match="holds code that AOTInductor compiled, not a model"):
        load_model(tmp_path / "model.pt2")


def test_a_whole_one_is_read(saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(saved)
    (result,) = load_model(tmp_path / "model.pt2").module()(torch.tensor([-1.0, 0.0, 2.0])).split(3)
    assert result.tolist() == [0.0, 0.0, 2.0]


@pytest.mark.parametrize("command", ["lower", "run", "inspect", "selftest run", "tune show"])
@pytest.mark.parametrize("content", ["model", "data", "nothing", "a folder"])
def test_every_command_says_what_it_cannot_read(
    saved: bytes, tmp_path: Path, command: str, content: str
) -> None:
    path = tmp_path / "file"
    if content == "a folder":
        path.mkdir()
    else:
        path.write_bytes({"model": saved, "data": b"\x20\0\0\0FT01" + bytes(64)}.get(content, b""))
    if (command, content) == ("lower", "model"):
        return  # that is right
    result = CliRunner().invoke(app, [*command.split(), str(path)])
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert str(path) in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_a_model_is_lowered_first(saved: bytes, tmp_path: Path, command: str) -> None:
    (tmp_path / "model.pt2").write_bytes(saved)
    result = CliRunner().invoke(app, [command, str(tmp_path / "model.pt2")])
    assert "lower it first, with 'aoti-plugins lower'" in result.stderr
