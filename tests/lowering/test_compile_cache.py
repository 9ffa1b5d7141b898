"""Damaged entries of the compile cache are made anew, and folders of others are refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aoti_plugins.cpu.target import host_machine
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts import cache_folder, compile_cache, zig
from aoti_plugins.lowering.artifacts.cache_folder import CACHE_DIR_VARIABLE, CacheNotPrivateError
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler

KEY = bytes(range(32))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test; what one process checked already is forgotten."""
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(compile_cache, "_checked", {})
    return tmp_path / "cache"


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped in the content": lambda data: _flip(data, len(data) - 3),
    "flipped in the digest": lambda data: _flip(data, 40),
    "flipped in the magic": lambda data: _flip(data, 0),
    "empty": lambda data: b"",
    "cut off": lambda data: data[:-1],
    "cut off in the digest": lambda data: data[:33],
    "more behind it": lambda data: data + b"\0",
    "zeros, as after a power cut": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_blob_is_made_anew(
    cache: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    compile_cache.cached_blob(KEY, lambda: b"the blob of a model")
    (entry,) = (cache / "blobs").iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(DAMAGES[damage](whole))
    assert compile_cache.cached_blob(KEY, lambda: b"the blob of a model") == b"the blob of a model"
    assert "damaged, and is made anew" in caplog.text
    assert entry.read_bytes() == whole
    assert compile_cache.cached_blob(KEY, lambda: pytest.fail("made again")) == (
        b"the blob of a model"
    )


def test_an_entry_under_the_name_of_another_is_not_used(cache: Path) -> None:
    compile_cache.cached_blob(KEY, lambda: b"one")
    (entry,) = (cache / "blobs").iterdir()
    entry.rename(entry.with_name(f"{bytes(32).hex()[:40]}.blob"))
    assert compile_cache.cached_blob(bytes(32), lambda: b"two") == b"two"


def test_a_damaged_text_is_made_anew(cache: Path) -> None:
    assert compile_cache.cached_text("kind", KEY, lambda: "digest") == "digest"
    (entry,) = (cache / "kind").iterdir()
    entry.write_bytes(_flip(entry.read_bytes(), entry.stat().st_size - 1))
    assert compile_cache.cached_text("kind", KEY, lambda: "digest") == "digest"


@pytest.mark.parametrize("file", ["shared.o", "shared.cpp", "digests"])
@pytest.mark.parametrize("damage", ["flip", "empty", "gone"])
def test_a_damaged_object_is_made_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch, file: str, damage: str
) -> None:
    command = cxx_compiler(host_machine())
    source = "int one() { return 1; }\n"
    found = compile_cache.compiled_object(command, ["-O1"], source)
    whole = found.read_bytes()
    damaged = found.with_name(file)
    data = damaged.read_bytes()
    if damage == "gone":
        damaged.unlink()
    else:
        damaged.write_bytes(_flip(data, len(data) // 2) if damage == "flip" else b"")
    assert compile_cache.compiled_object(command, ["-O1"], source) == found
    assert found.read_bytes() == whole
    monkeypatch.setattr(compile_cache, "run", lambda *_, **__: pytest.fail("compiled again"))
    monkeypatch.setattr(compile_cache, "_checked", {})  # as another process
    assert compile_cache.compiled_object(command, ["-O1"], source) == found


def test_a_damaged_precompiled_header_is_made_anew(cache: Path) -> None:
    command = cxx_compiler(host_machine())
    _, name = compile_cache.precompiled(command, ["-O1"], "inline int f() { return 1; }\n")
    found = Path(name)
    header = found.with_name("prefix.h.gch")
    header.write_bytes(_flip(header.read_bytes(), header.stat().st_size // 2))
    again = compile_cache.precompiled(command, ["-O1"], "inline int f() { return 1; }\n")
    assert again == ["-include", name]
    assert cache_folder.is_whole(found.parent)


def test_what_is_written_is_on_the_disk_before_it_has_its_name(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, then rename, then the folder's names: a power cut leaves the old or the new."""
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        steps.append(kind)
        real_fsync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    compile_cache.cached_blob(KEY, lambda: b"blob")
    assert steps == ["file", "rename", "folder"]


def test_the_cache_is_for_its_user_alone(cache: Path) -> None:
    compile_cache.cached_blob(KEY, lambda: b"blob")
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE((cache / "blobs").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
@pytest.mark.parametrize("kind", ["", "blobs"])
def test_a_cache_that_others_can_write_to_is_refused(cache: Path, mode: int, kind: str) -> None:
    compile_cache.cached_blob(KEY, lambda: b"blob")
    (cache / kind).chmod(mode)
    with pytest.raises(CacheNotPrivateError, match=f"others can write to it .mode {mode:04o}"):
        compile_cache.cached_blob(KEY, lambda: b"blob")
    (cache / kind).chmod(0o755)  # who only reads changes nothing
    assert compile_cache.cached_blob(KEY, lambda: pytest.fail("made again")) == b"blob"


def test_a_cache_of_somebody_else_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    if cache.stat().st_uid == 0:  # what root owns is root's word
        os.chown(cache, 12345, -1)
    with pytest.raises(LoweringError, match="it belongs to user") as caught:
        compile_cache.cached_blob(KEY, lambda: b"blob")
    assert CACHE_DIR_VARIABLE in str(caught.value)


def test_lowering_says_why_it_refuses_a_cache(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(CacheNotPrivateError, match="mode 0777"):
        compile_cache.compiled_object(cxx_compiler(host_machine()), [], "int f();\n")


def test_a_compiler_that_cannot_be_run_is_not_the_caches_fault(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_such_program(*_: object, **__: object) -> str:
        raise FileNotFoundError("no such program")

    monkeypatch.setattr(compile_cache, "run", no_such_program)
    monkeypatch.setattr(compile_cache, "compiler_identity", lambda command: "a compiler")
    with pytest.raises(LoweringError, match=r"^nowhere/g\+\+ cannot be run: no such program"):
        compile_cache.compiled_object(["nowhere/g++"], [], "int f();\n")


def test_entries_of_processes_that_write_at_once(cache: Path) -> None:
    """Four processes make the same entry, again and again: nobody reads anything but the whole."""
    script = (
        "from aoti_plugins.lowering.artifacts import compile_cache\n"
        "from aoti_plugins.lowering.artifacts.cache_folder import write_entry\n"
        "data = bytes(1000) * 1000\n"
        "for _ in range(20):\n"
        "    found = compile_cache.cached_blob(bytes(32), lambda: data)\n"
        "    assert found == data\n"
        f"    write_entry(compile_cache.private_folder('blobs') / '{'0' * 40}.blob', data)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        _, printed = process.communicate(timeout=300)
        assert (process.returncode, printed) == (0, "")
    assert [path.suffix for path in (cache / "blobs").iterdir()] == [".blob"]


@pytest.mark.parametrize("file", ["o/ab/libc++.a", "z/cd", "digests"])
def test_a_damaged_cache_of_zig_is_emptied(
    cache: Path, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    with zig.checked_zig_cache():
        for name in ("o/ab/libc++.a", "z/cd", "h/manifest"):
            (cache / "zig" / name).parent.mkdir(parents=True)
            (cache / "zig" / name).write_bytes(b"made by zig")
    with zig.checked_zig_cache():
        assert (cache / "zig" / file).exists()
        (cache / "zig" / "o" / "new").write_bytes(b"of another build")
    assert not caplog.text
    damaged = cache / "zig" / file
    damaged.write_bytes(_flip(damaged.read_bytes(), 5))
    with zig.checked_zig_cache():
        assert "is damaged, and is made anew" in caplog.text
        assert not list((cache / "zig").glob("*/*"))


def test_a_large_cache_of_zig_is_emptied(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zig, "_MOST_NBYTES", 10)
    with zig.checked_zig_cache():
        (cache / "zig" / "o").mkdir()
        (cache / "zig" / "o" / "object").write_bytes(bytes(11))
    with zig.checked_zig_cache():
        assert not (cache / "zig" / "o").exists()
