"""Results go through links and into devices; regular files are replaced, whole or not at all."""

from __future__ import annotations

import os
import resource
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from zipfile import ZipFile

import click
import pytest
from click.testing import CliRunner

from aoti_plugins.cli._lowering import write_program
from aoti_plugins.cli.app import app
from aoti_plugins.destinations import (
    check_destination,
    check_folder,
    is_stream,
    move_into_place,
    write_bytes,
    writing,
)
from aoti_plugins.errors import DestinationError

_FULL = os.makedev(1, 7)  # what /dev/full is on Linux; the tests make a node of their own


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_and_one_that_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    check_destination(path)
    assert names(tmp_path) == []
    write_bytes(path, b"old")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o600)
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("is_there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_is_written_through(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "far").mkdir()
    target, link, again = tmp_path / "far/a.bin", tmp_path / "link", tmp_path / "again"
    if is_there:
        target.write_bytes(b"old")
    link.symlink_to("far/a.bin")
    again.symlink_to(link)
    check_destination(again)
    write_bytes(again, b"new")
    assert again.is_symlink()
    assert link.is_symlink()
    assert not target.is_symlink()
    assert target.read_bytes() == b"new"
    (tmp_path / "staged").write_bytes(b"moved")
    move_into_place(tmp_path / "staged", link)
    assert link.is_symlink()
    assert target.read_bytes() == b"moved"
    assert names(tmp_path) == ["again", "far", "link"]


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(DestinationError, match=r"cannot write '.*/a': [tT]oo many"):
        check_destination(tmp_path / "a")


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    check_destination(pipe)
    assert is_stream(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"through")
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(DestinationError, match="no regular file, and what it holds is kept"):
        check_destination(pipe, is_merged=True)


def test_a_device_is_written_into_and_stays(tmp_path: Path) -> None:
    node = tmp_path / "full"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, _FULL)
        node.open("wb").close()
    except PermissionError as error:
        pytest.skip(f"device nodes cannot be made or used here: {error}")
    (tmp_path / "link").symlink_to(node)
    for path in (node, tmp_path / "link"):
        check_destination(path)
        with pytest.raises(DestinationError, match=r"cannot write .*: No space left on device"):
            write_bytes(path, b"anything")
    assert stat.S_ISCHR(node.stat().st_mode)
    assert names(tmp_path) == ["full", "link"]


def test_a_descriptor_is_written_into(tmp_path: Path) -> None:
    """What ``-o /dev/stdout`` names in ``command > file`` must stay the file that is open."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        before = path.stat().st_ino
        write_bytes(f"/dev/fd/{file.fileno()}", b"through")
        assert path.stat().st_ino == before
    assert path.read_bytes() == b"through"


@contextmanager
def files_no_longer_than(nbytes: int) -> Iterator[None]:
    """A full disk, for the bytes of one file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with (
        files_no_longer_than(1000),
        pytest.raises(DestinationError, match=r"a.bin': File too large"),
    ):
        write_bytes(path, bytes(5000))

    def interrupted() -> None:
        with writing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def nowhere(folder: Path) -> Path:
    """A folder in which nothing can be made, for root too."""
    if os.geteuid():
        (folder / "locked").mkdir(mode=0o500)
        return folder / "locked"
    return Path("/proc/self")


def test_refused_before_the_work(tmp_path: Path) -> None:
    refused = {
        tmp_path: "it is a folder",
        tmp_path / "no" / "a.bin": "there is no folder",
        tmp_path / ("x" * 300): "File name too long",
        nowhere(tmp_path) / "a.bin": "(Permission denied|No such file or directory)",
    }
    for path, reason in refused.items():
        with pytest.raises(DestinationError, match=reason):
            check_destination(path)
        with pytest.raises(DestinationError, match=reason):
            write_bytes(path, b"")
    check_destination(tmp_path / ("x" * 254))
    write_bytes(tmp_path / ("x" * 254), b"fits")


def test_what_is_read_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(DestinationError, match="it is what is read; choose another name"):
        check_destination(tmp_path / "b", read=[tmp_path / "a"])


def test_folders(tmp_path: Path) -> None:
    check_folder(tmp_path / "new" / "folder")
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(DestinationError, match="file' is no folder"):
        check_folder(tmp_path / "file" / "x")
    with pytest.raises(DestinationError):
        check_folder(nowhere(tmp_path) / "x")


# Every command that writes, without what is to be written: nothing else may be looked at first.
WRITERS = {
    "lower": ("lower", "{input}", "-o"),
    "export": ("export", "{input}", "-o"),
    "run": ("run", "{input}", "--save-outputs"),
    "tune record": ("tune", "record", "{input}", "-o"),
    "tune merge": ("tune", "merge", "{input}", "-o"),
    "selftest make": ("selftest", "make"),
    "selftest run": ("selftest", "run", "{input}", "-o"),
    "sign": ("sign", "{input}", "--key", "{input}", "-o"),
    "new-plugin": ("new-plugin", "acme", "--output"),
}
_WRITES = ("output", "output_path")


def writers(group: click.Group, prefix: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from writers(command, f"{prefix}{name} ")
        elif any(param.name in _WRITES for param in command.params):
            yield prefix + name


def test_all_commands_that_write_are_known() -> None:
    assert set(writers(app)) == WRITERS.keys()


@pytest.mark.parametrize("command", WRITERS)
def test_a_command_says_what_it_cannot_write(command: str, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "input.pt2", "w") as archive:  # an exported model at first sight
        archive.writestr("model/models/model.json", "{}")
    (tmp_path / "full.pt").mkdir()
    (tmp_path / "full.pt" / "something").touch()
    suffix = "" if command == "new-plugin" else ".pt"
    arguments = [one.format(input=tmp_path / "input.pt2") for one in WRITERS[command]]
    for path in ("full.pt", f"input.pt2/a{suffix}", f"{'x' * 300}{suffix}"):
        result = CliRunner().invoke(app, [*arguments, str(tmp_path / path)])
        assert result.exit_code == 1
        assert isinstance(result.exception, SystemExit), result.exception
        assert result.stderr.startswith("error: ")
        assert str(tmp_path / path) in result.stderr
        assert result.stderr.count("\n") == 1
    assert names(tmp_path) == ["full.pt", "input.pt2"]


class Lowered:
    """Stands for ExecuTorch's program manager."""

    buffer = b"program"

    def write_to_file(self, file: BinaryIO) -> None:
        file.write(self.buffer)

    def write_tensor_data_to_file(self, folder: str) -> None:
        (Path(folder) / "weights.ptd").write_bytes(b"weights")


def test_program_and_weights_go_through_links(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for name in ("model.pte", "weights.ptd"):
        (tmp_path / name).symlink_to(tmp_path / "far" / name)
    assert write_program(Lowered(), tmp_path / "model.pte") == (None, [tmp_path / "weights.ptd"])
    assert (tmp_path / "far/model.pte").read_bytes() == b"program"
    assert (tmp_path / "far/weights.ptd").read_bytes() == b"weights"
    assert names(tmp_path) == ["far", "model.pte", "weights.ptd"]
    assert all((tmp_path / name).is_symlink() for name in ("model.pte", "weights.ptd"))


def test_a_program_is_written_into_a_pipe(tmp_path: Path) -> None:
    """It cannot be read there again, so the report is about the bytes that were written."""
    found: list[bytes] = []
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    assert write_program(Lowered(), tmp_path / "pipe") == (b"program", [])
    reader.join()
    assert found == [b"program"]
    assert names(tmp_path) == ["pipe"]


def test_a_package_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with files_no_longer_than(300):
        result = CliRunner().invoke(app, ["new-plugin", "acme", "--output", str(tmp_path / "new")])
    assert result.exit_code == 1
    assert "File too large" in result.stderr
    assert names(tmp_path) == []
