"""Compiling and reading shared objects."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path

import pytest
from support import cache_without_blobs

from aoti_plugins import native_files
from aoti_plugins.cpu.target import host_machine
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts import compile_cache, compiler, shared_object, zig
from aoti_plugins.lowering.artifacts.cache_folder import CACHE_DIR_VARIABLE
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler
from aoti_plugins.lowering.artifacts.elf import read_shared_object
from aoti_plugins.lowering.artifacts.shared_object import (
    SharedObject,
    SharedObjectBuild,
    build_shared_object,
    check_machine,
)
from aoti_plugins.lowering.inductor.capture import GeneratedCode

WRAPPER = """
extern "C" __attribute__((visibility("default"))) int AOTInductorTest() {
  int64_t dim = 0;
  return aoti_torch_get_dim(nullptr, &dim) + __LINE__;
}
extern "C" int kept_inside() { return 0; }
"""


def _mtime(path: Path) -> float:
    return path.stat().st_mtime


def _precompiled(command: list[str], text: str, *flags: str) -> Path:
    return Path(compile_cache.precompiled(command, flags, text)[-1])


@pytest.fixture
def build() -> SharedObjectBuild:
    return SharedObjectBuild(
        device="cpu",
        machine="x86_64",
        target_flags=("-mavx2", "-mfma", "-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2"),
        runtime_libraries=(native_files.library("libexecutorch_backend_aoti.so"),),
        include_dir=native_files.include_dir(),
    )


def test_blob_is_bound_to_our_runtime_and_reproducible(
    build: SharedObjectBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = build_shared_object(GeneratedCode(wrapper=WRAPPER), build)
    assert blob.shims == ("aoti_torch_get_dim",)
    assert "libexecutorch_backend_aoti.so" in blob.needed
    info = read_shared_object(blob.data)
    assert info.exported == ("AOTInductorTest",)
    assert "aotip_aoti_torch_get_dim" in info.undefined
    monkeypatch.setenv("AOTI_PLUGINS_CACHE_DIR", cache_without_blobs(tmp_path / "cache"))
    assert build_shared_object(GeneratedCode(wrapper=WRAPPER), build).data == blob.data


def test_a_blob_is_built_once(build: SharedObjectBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = build_shared_object(GeneratedCode(wrapper=WRAPPER), build)
    monkeypatch.setattr(
        shared_object, "run", lambda *_, **__: pytest.fail("something was compiled")
    )
    assert build_shared_object(GeneratedCode(wrapper=WRAPPER), build) == blob
    with pytest.raises(pytest.fail.Exception, match="compiled"):
        build_shared_object(GeneratedCode(wrapper=WRAPPER + "// changed\n"), build)


def test_blobs_are_kept_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTI_PLUGINS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compile_cache, "_MOST_BLOBS_NBYTES", 150)
    built: list[int] = []

    def blob(number: int) -> bytes:
        def build() -> bytes:
            built.append(number)
            return bytes([number]) * 10

        found = compile_cache.cached_blob(bytes([number]) * 32, build)
        for age, path in enumerate(sorted((tmp_path / "blobs").iterdir(), key=_mtime)):
            os.utime(path, (age, age))  # older by far, in the same order
        return found

    assert [blob(n)[0] for n in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert built == [1, 2, 3, 2]  # the second was used longest ago when there was no more room


VECTOR_AS_LAST_ARGUMENT = """
typedef float vector __attribute__((vector_size(64), aligned(32)));
void last(float *, vector);
extern "C" void kernel(float *to, vector numbers) { last(to, numbers + 1); }
"""


def test_kernels_return_from_their_last_call(build: SharedObjectBuild, tmp_path: Path) -> None:
    """GCC 13 took the place of a function's arguments to be aligned as those of the call."""
    source, assembly = tmp_path / "kernel.cpp", tmp_path / "kernel.s"
    source.write_text(VECTOR_AS_LAST_ARGUMENT)
    command = cxx_compiler("x86_64")
    flags = shared_object.kernel_flags(build, command)
    compiler.run([*command, *flags, "-S", str(source), "-o", str(assembly)])
    assert re.search(r"(call|bl)\s+\S*last", assembly.read_text())


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AOTI_PLUGINS_CACHE_DIR", str(tmp_path / "file"))
    assert compile_cache.cached_blob(bytes(32), lambda: b"blob") == b"blob"


def test_a_shim_that_nobody_has_does_not_link(build: SharedObjectBuild) -> None:
    code = GeneratedCode(wrapper='extern "C" int aoti_torch_cpu_zeta(); int f() { return 1; }\n')
    build_shared_object(code, build)
    code.wrapper += (
        'extern "C" __attribute__((visibility("default"))) '
        "int AOTInductorTest() { return aoti_torch_cpu_zeta(); }"
    )
    with pytest.raises(LoweringError, match="undefined reference to `aoti_torch_cpu_zeta'"):
        build_shared_object(code, build)


def test_compile_error_shows_command_and_output(build: SharedObjectBuild) -> None:
    with pytest.raises(LoweringError) as caught:
        build_shared_object(GeneratedCode(wrapper="int f( {"), build)
    assert "failed with exit status 1" in str(caught.value)
    assert "wrapper.cpp:1" in str(caught.value)


def test_one_failure_stops_the_other_compilers(tmp_path: Path) -> None:
    slow, broken = tmp_path / "slow", tmp_path / "broken"
    slow.write_text("#!/bin/sh\nsleep 600 &\nwait\n")
    broken.write_text("#!/bin/sh\necho no\nexit 3\n")
    for script in (slow, broken):
        script.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(LoweringError, match="broken failed with exit status 3"):
        compiler.for_each(lambda path: compiler.run([str(path)]), [broken, slow])
    assert time.monotonic() - start < 60


def test_machine_is_checked() -> None:
    with pytest.raises(LoweringError, match="'aarch64-v8' is a aarch64 machine"):
        check_machine(SharedObject(b"", "x86_64", (), ()), "aarch64", "aarch64-v8")


@pytest.mark.parametrize(
    ("cxx", "message"),
    [
        ("no-such-compiler -O2", r"\$CXX is 'no-such-compiler', which is not there"),
        ("", r"needs a C\+\+ compiler for x86_64 machines, and there is no g\+\+, nor .* Zig"),
    ],
)
def test_missing_compiler(
    cxx: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(zig, "_program", lambda: None)
    with pytest.raises(LoweringError, match=message) as caught:
        cxx_compiler("x86_64")
    for advice in ("pip install ziglang", "apt install g++"):
        assert advice in str(caught.value)


def test_clang_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretender = tmp_path / "c++"
    pretender.write_text("#!/bin/sh\necho Debian clang version 14.0.6\n")
    pretender.chmod(0o755)
    monkeypatch.setenv("CXX", str(pretender))
    with pytest.raises(LoweringError, match=r"c\+\+, is clang.*set it to a g\+\+"):
        cxx_compiler(host_machine())


def test_precompiled_header_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    command = cxx_compiler(host_machine())
    first = _precompiled(command, "inline int f() { return 1; }\n")
    made = first.with_name("prefix.h.gch").stat().st_mtime_ns
    again = _precompiled(command, "inline int f() { return 1; }\n")
    assert again == first
    assert again.with_name("prefix.h.gch").stat().st_mtime_ns == made
    other = _precompiled(command, "inline int f() { return 1; }\n", "-O2")
    assert other != first
    leftovers = [p for p in first.parent.parent.iterdir() if p.name.startswith("building-")]
    assert not leftovers


def test_what_nobody_used_for_a_month_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path))
    command = cxx_compiler(host_machine())

    def header(number: int) -> Path:
        return _precompiled(command, f"#define NUMBER {number}\n").parent

    (tmp_path / "headers" / "building-of-a-killed-process").mkdir(parents=True)
    old, used = header(1), header(2)
    long_ago = time.time() - 31 * 24 * 3600
    for folder in (tmp_path / "headers").iterdir():
        os.utime(folder, (long_ago, long_ago))
    assert header(2) == used
    new = header(3)
    assert set((tmp_path / "headers").iterdir()) == {used, new}
    assert header(1) == old


def test_of_many_headers_those_stay_that_were_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path))
    command = cxx_compiler(host_machine())

    def header(number: int) -> Path:
        return _precompiled(command, f"#define NUMBER {number}\n").parent

    found = [header(number) for number in range(4)]
    for hours, folder in enumerate(found):
        used = time.time() - 3600 * hours - 1800  # the first may be in use
        os.utime(folder, (used, used))
    nbytes = sum(path.stat().st_size for path in found[0].iterdir())
    monkeypatch.setattr(compile_cache, "_MOST_SHARED_NBYTES", 3 * nbytes + nbytes // 2)
    new = header(5)
    assert set((tmp_path / "headers").iterdir()) == {new, *found[:2]}
    monkeypatch.setattr(compile_cache, "_MOST_SHARED_NBYTES", 0)
    assert {header(6), new, found[0]} == set((tmp_path / "headers").iterdir())


def test_a_header_that_does_not_compile_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path))
    with pytest.raises(LoweringError, match="failed with exit status"):
        compile_cache.precompiled(cxx_compiler(host_machine()), [], "int f( {")
    assert list((tmp_path / "headers").iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    blocked.chmod(stat.S_IRUSR)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(blocked))
    with pytest.raises(LoweringError, match=CACHE_DIR_VARIABLE):
        compile_cache.precompiled(cxx_compiler(host_machine()), [], "\n")
