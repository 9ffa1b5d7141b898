"""Check a Metal library's use of address spaces: ``python address_spaces.py FILE...``.

On the host all memory is alike, so a pointer into threadgroup memory where Metal wants one into
device memory would go unnoticed. Here the compiler's type checker sees the text with the address
spaces that clang has; nothing is run.
"""

from __future__ import annotations

import itertools
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from compile import _HERE, CompileError, _preprocess, _readable, zig
from metal_kernels import find_kernels
from metal_tokens import (
    MetalSyntaxError,
    Token,
    closing,
    closing_angle,
    join,
    split_commas,
    tokenize,
)
from translate import drop_attributes, drop_includes, make_float_literals, needs_preprocessor

_VECTOR: Final = re.compile(r"(?:bool|u?char|u?short|u?int|u?long|half|bfloat|float)[234]")
_BEFORE_DECLARATION: Final = frozenset({";", "{", "}"})
_NOT_A_CALL: Final = frozenset({".", "->", "~", "class", "typename", "struct", ">"})


def check(text: str) -> None:
    """Check the address spaces of a Metal library.

    Raises:
        CompileError: there is a mistake; the message has the compiler's errors.
    """
    try:
        if needs_preprocessor(text):
            text = _preprocess(text)
        source = to_checked(text)
    except MetalSyntaxError as error:
        raise CompileError(str(error)) from error
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "library.cpp").write_text(source)
        # With clang itself, as zig looks for an output.
        flags = ["-std=c++17", "-fsyntax-only", "-w", "-fsigned-char", "-Wno-c++11-narrowing"]
        machine = f"--target={platform.machine()}-linux-gnu"
        command = [zig(), "clang", machine, *flags, f"-I{_HERE / 'include'}", "library.cpp"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise CompileError(_readable(done.stderr, text))


def to_checked(text: str) -> str:
    """C++ with the compiler's address spaces, for ``include/address_spaces/metal.h``."""
    tokens = tokenize(text)
    instantiations = [k.name for k in find_kernels(tokens) if "<" in k.name]
    drop_includes(tokens)
    drop_attributes(tokens)
    parameters = _type_parameters(tokens)
    _mark_group_variables(tokens)
    _make_constructors(tokens, parameters)
    for token in tokens:
        make_float_literals(token)
    uses = "".join(
        f"static auto* metal_host_use_{i} = &{n};\n" for i, n in enumerate(instantiations)
    )
    return (
        "#include <address_spaces/metal.h>\n"
        f'#line 1 "program_source"\n{join(tokens)}\n#line 1 "instantiations"\n{uses}'
    )


def _type_parameters(tokens: list[Token]) -> set[str]:
    """Names of template parameters that are types: they may stand for vectors."""
    words = [token.text for token in tokens if token.kind != "space"]
    return {
        name
        for keyword, name in itertools.pairwise(words)
        if keyword in ("typename", "class") and name.isidentifier()
    }


def _mark_group_variables(tokens: list[Token]) -> None:
    """Variables in an address space have to be static in C++."""
    before: Token | None = None
    for token in tokens:
        if token.kind == "space":
            continue
        starts = before is None or before.kind == "directive" or before.text in _BEFORE_DECLARATION
        before = token
        if token.text == "threadgroup" and starts and _declares_variable(tokens, token):
            token.text = "static threadgroup"
            before = token


def _declares_variable(tokens: list[Token], start: Token) -> bool:
    """Whether the declaration that starts here is of a variable, and not of a pointer."""
    rest = [t for t in tokens[tokens.index(start) + 1 :][:200] if t.kind != "space"]
    index = 0
    while index < len(rest) and rest[index].text not in (";", "[", ",", "="):
        if rest[index].text == "<":
            index = closing_angle(rest, index)
        if rest[index].text in ("*", "&"):
            return False
        index += 1
    return True


def _make_constructors(tokens: list[Token], parameters: set[str]) -> None:
    """``float2(a, b)`` is no C++ for the compiler's own vectors: a function is called instead."""
    marks = [i for i, token in enumerate(tokens) if token.kind not in ("space", "directive")]
    for place in range(len(marks) - 1):
        token, following = tokens[marks[place]], tokens[marks[place + 1]]
        if token.kind != "word" or following.text != "(":
            continue
        if place and tokens[marks[place - 1]].text in _NOT_A_CALL:
            continue
        is_vector = _VECTOR.fullmatch(token.text) is not None
        if not is_vector and token.text not in parameters:
            continue
        inside = tokens[marks[place + 1] + 1 : closing(tokens, marks[place + 1])]
        if is_vector or len(split_commas([t for t in inside if t.kind != "space"])) > 1:
            token.text = f"metal_host_make<{token.text}>"


def main() -> int:
    """Check the files of the command line."""
    failed = 0
    for name in sys.argv[1:]:
        try:
            check(Path(name).read_text())
        except CompileError as error:
            failed = 1
            print(f"{name}:\n{error}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
