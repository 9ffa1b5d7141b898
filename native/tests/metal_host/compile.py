"""Compile a Metal library for the host: ``python compile.py SOURCE OUTPUT``.

SOURCE is Metal text, OUTPUT a shared library (``include/metal_host/abi.h``). The compiler is
ziglang's. Libraries are cached by content in ``$AOTI_PLUGINS_METAL_CACHE``, or in a folder of the
user's among temporary files; several processes may share it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from metal_tokens import MetalSyntaxError
from translate import needs_preprocessor, translate

_HERE: Final = Path(__file__).resolve().parent
_MAX_ERRORS: Final = 10
# Checks of every access to memory (include/metal_host/memory_check.h), if METAL_HOST_CHECK is 1.
_CHECK_FLAGS: Final = (
    "-DMETAL_HOST_CHECK=1", "-Xclang", "-fsanitize=thread",
    "-mllvm", "-tsan-instrument-func-entry-exit=false",
)  # fmt: skip
_COMPILE_FLAGS: Final = (
    "-std=c++17", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-w", "-fno-exceptions",
    "-fno-rtti", "-fsigned-char", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing",
    "-fwrapv", "-Xclang", "-ffloat16-excess-precision=none",
    "-Xclang", "-fbfloat16-excess-precision=none",
    "-fno-sanitize=all", "-fno-stack-protector", "-fno-threadsafe-statics",
    "-Xclang", "-fsanitize=array-bounds,integer-divide-by-zero",
    "-Xclang", "-fsanitize-recover=array-bounds,integer-divide-by-zero",
    f"-I{_HERE / 'include'}",
)  # fmt: skip


class CompileError(Exception):
    """The text is no Metal that compiles; the message is the compiler's."""


def compile_metal(text: str, output: Path) -> None:
    """Compile Metal text to a shared library.

    Raises:
        CompileError: the text is not understood.
    """
    cached = cache_folder() / f"{_digest(text)}.so"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached.parent) as folder:
            built = _build(text, Path(folder))
            built.rename(cached)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        copied = Path(folder) / output.name
        shutil.copyfile(cached, copied)
        copied.rename(output)


def cache_folder() -> Path:
    """Where compiled libraries are kept."""
    named = os.environ.get("AOTI_PLUGINS_METAL_CACHE")
    return Path(named) if named else Path(tempfile.gettempdir()) / f"metal_host_cache_{os.getuid()}"


def to_host(text: str) -> str:
    """Translate Metal to C++ for the host.

    Raises:
        CompileError: the text is not understood.
    """
    try:
        if needs_preprocessor(text):
            text = _preprocess(text)
        return translate(text)
    except MetalSyntaxError as error:
        raise CompileError(str(error)) from error


def zig() -> str:
    """Path of the zig executable that the package ziglang has."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise CompileError("compiling Metal for the host needs ziglang: pip install ziglang")
    return str(Path(spec.submodule_search_locations[0]) / "zig")


def _target() -> list[str]:
    machine = platform.machine()
    return ["-target", f"{machine}-linux-gnu.2.28"] + (["-mf16c"] if machine == "x86_64" else [])


def _flags() -> list[str]:
    checked = os.environ.get("METAL_HOST_CHECK") == "1"
    return [*_target(), *_COMPILE_FLAGS, *(_CHECK_FLAGS if checked else ())]


@functools.cache
def _tool_digest() -> bytes:
    """Of the files that decide how a text is compiled."""
    files = sorted([*_HERE.glob("*.py"), *(_HERE / "include").rglob("*")])
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.digest()


def _digest(text: str) -> str:
    return hashlib.sha256(
        b"\0".join([_tool_digest(), *map(str.encode, _flags()), text.encode()])
    ).hexdigest()[:32]


def _preprocess(text: str) -> str:
    """Expand macros that hide kernels; the headers of Metal are left out."""
    bare = re.sub(r"(?m)^[ \t]*#[ \t]*include\b.*$", "", text)
    keywords = ("-D__METAL__=1", "-D__METAL_VERSION__=310", "-D__HAVE_BFLOAT__=1")
    command = [zig(), "c++", *_target(), "-E", "-P", "-undef", *keywords, "-x", "c++", "-"]
    return _run(command, text, stdin=bare)


def _build(text: str, folder: Path) -> Path:
    """Compile in a folder; by relative names, as they end up in the library."""
    (folder / "library.cpp").write_text(to_host(text))
    _run([zig(), "c++", *_flags(), "-c", "library.cpp", "-o", "library.o"], text, folder=folder)
    # With the bare linker: zig would first build a C library's stubs and its run-time library. What
    # is undefined, memcpy and sinf, the process has.
    link = [zig(), "ld.lld", "-shared", "--gc-sections", "library.o", "-o", "library.so"]
    _run(link, text, folder=folder)
    return folder / "library.so"


def _run(command: list[str], text: str, stdin: str = "", folder: Path | None = None) -> str:
    """What a tool prints; its errors are shown with lines of ``text``."""
    done = subprocess.run(command, input=stdin, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise CompileError(_readable(done.stderr, text))
    return done.stdout


def _readable(errors: str, text: str) -> str:
    """The compiler's errors, each with the line of Metal that it is about."""
    lines = text.splitlines()
    result = []
    for line in errors.splitlines():
        if not re.search(r"\berror:|undefined symbol", line):
            continue
        result.append(line)
        match = re.match(r"program_source:(\d+):", line)
        if match and int(match.group(1)) <= len(lines):
            result.append("    " + lines[int(match.group(1)) - 1].strip())
    if not result:
        return errors[-2000:]
    shown = result[: 2 * _MAX_ERRORS]
    return "\n".join(shown + ["..."] * (len(result) > len(shown)))


def main() -> int:
    """Compile what the command line says; errors go to the standard error."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        compile_metal(Path(sys.argv[1]).read_text(), Path(sys.argv[2]).absolute())
    except (CompileError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
