"""Metal text to C++ for the host, which ``include/`` makes a program of.

What the C++ compiler cannot be told by headers is rewritten: literals (Metal has no double),
attributes, variables in threadgroup memory, explicit instantiations of kernels. Behind the text
comes a table of the kernels. Lines stay where they are.
"""

from __future__ import annotations

import re
from typing import Final

from metal_kernels import KernelFunction, find_kernels, waiting_functions
from metal_tokens import (
    MetalSyntaxError,
    Token,
    closing,
    closing_angle,
    join,
    tokenize,
)

_DECIMAL_FLOAT: Final = re.compile(r"^(?!0[xX])(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$")
_HEX_FLOAT: Final = re.compile(r"^0[xX][\da-fA-F.]+[pP][+-]?\d+$")
_BEFORE_DECLARATION: Final = frozenset({";", "{", "}"})
_IN_MACRO: Final = re.compile(r"\b(?:kernel|threadgroup|host_name)\b|\[\[")


def translate(text: str) -> str:
    """Translate a Metal library.

    Raises:
        MetalSyntaxError: it is not understood.
    """
    tokens = tokenize(text)
    functions = find_kernels(tokens)
    waiting = waiting_functions(tokens)
    _place_group_variables(tokens)
    drop_includes(tokens)
    drop_attributes(tokens)
    for token in tokens:
        make_float_literals(token)
    return (
        "#include <metal_host/metal.h>\n"
        f'#line 1 "program_source"\n{join(tokens)}\n'
        f'#line 1 "metal_host_kernels"\n{_table(functions, waiting)}'
    )


def needs_preprocessor(text: str) -> bool:
    """Whether macros hide what has to be seen here: kernels, attributes, threadgroup variables."""
    return any(
        token.kind == "directive" and "define" in token.text and _IN_MACRO.search(token.text)
        for token in tokenize(text)
    )


def float_literal(text: str) -> str:
    """A number of Metal as C++ has it: without suffix float, h half, bf bfloat."""

    def is_float(number: str) -> bool:
        plain = _DECIMAL_FLOAT.match(number) and not number.replace("'", "").isdigit()
        return bool(plain) or bool(_HEX_FLOAT.match(number))

    if is_float(text):
        return text + "f"
    lowered = text.lower()
    if lowered.endswith("bf") and not lowered.startswith("0x"):
        return f"bfloat({float_literal(text[:-2])})"
    if lowered.endswith("h") and not lowered.startswith("0x"):
        return text[:-1] + "f16" if is_float(text[:-1]) else f"half({text[:-1]})"
    return text


def make_float_literals(token: Token) -> None:
    """Give a number, or those in the text of a macro, the type that it has in Metal."""
    if token.kind == "number":
        token.text = float_literal(token.text)
    elif token.kind == "directive" and re.match(r"\s*#\s*define\b", token.text):
        name = re.match(r"\s*#\s*define\s+\w+", token.text)
        assert name is not None
        inner = tokenize(token.text[name.end() :])
        for part in inner:
            make_float_literals(part)
        token.text = name.group() + join(inner)


def drop_includes(tokens: list[Token]) -> None:
    """All headers of Metal are one, which comes first; others are not to be had."""
    for token in tokens:
        include = re.match(r"\s*#\s*(?:include|import)\s*[<\"]([^>\"]*)", token.text)
        if token.kind != "directive" or include is None:
            continue
        if include.group(1).startswith(("metal_", "simd/")):
            token.blank()
        else:
            token.text = f"#error '{include.group(1)}' is no header of Metal"


def drop_attributes(tokens: list[Token]) -> None:
    """Take all ``[[...]]`` out."""
    index = 0
    while index + 1 < len(tokens):
        if tokens[index].text == "[" and tokens[index + 1].text == "[":
            end = closing(tokens, index)
            for token in tokens[index : end + 1]:
                token.blank()
            index = end
        index += 1


def _place_group_variables(tokens: list[Token]) -> None:
    """Make references to emulated memory of the variables that are declared ``threadgroup``."""
    marks = [i for i, token in enumerate(tokens) if token.kind != "space"]
    number = 0
    for place, index in enumerate(marks):
        before = tokens[marks[place - 1]] if place else None
        # Of kind space by now: the declaration in front was one of these.
        starts = (
            before is None
            or before.kind in ("directive", "space")
            or before.text in _BEFORE_DECLARATION
        )
        if tokens[index].text == "threadgroup" and starts:
            end = place
            while tokens[marks[end]].text != ";":
                end += 1
                if end == len(marks):
                    raise MetalSyntaxError(tokens[index].line, "a declaration without ';'")
            declaration = [tokens[i] for i in marks[place + 1 : end]]
            text = _group_variables(declaration, number)
            number += text.count("GroupVariable")
            if text:
                span = tokens[index : marks[end] + 1]
                lines = "\n" * join(span).count("\n")
                for token in span:
                    token.kind, token.text = "space", ""
                span[0].text = text + lines


def _group_variables(declaration: list[Token], number: int) -> str:
    """Declarations of references; empty where a pointer is declared, which lives in a thread."""
    index = _end_of_type(declaration)
    if index == 0 or (index < len(declaration) and declaration[index].text in ("*", "&")):
        return ""
    type_text = " ".join(token.text for token in declaration[: index - 1])
    result = []
    index -= 1
    while index < len(declaration):
        name = declaration[index]
        index += 1
        sizes = ""
        while index < len(declaration) and declaration[index].text == "[":
            end = closing(declaration, index)
            sizes += " ".join(token.text for token in declaration[index : end + 1])
            index = end + 1
        if index < len(declaration) and declaration[index].text != ",":
            raise MetalSyntaxError(
                name.line, f"threadgroup variable '{name.text}' has an initializer"
            )
        alias = f"metal_host_type_{number}"
        result.append(
            f"using {alias} = {type_text}{sizes}; "
            f'auto& {name.text} = metal_host::GroupVariable<{alias}, {number}>::get("{name.text}");'
        )
        number += 1
        index += 1
    return " ".join(result)


def _end_of_type(declaration: list[Token]) -> int:
    """Index of what follows the first declared name, or of a ``*`` or ``&``."""
    index = 0
    while index < len(declaration):
        text = declaration[index].text
        if text == "<":
            index = closing_angle(declaration, index)
        elif text == "alignas":
            index = closing(declaration, index + 1)
        elif text in ("[", ",", "=", "{", "(", "*", "&"):
            return index
        index += 1
    return index


def _table(functions: list[KernelFunction], waiting: set[str]) -> str:
    """C++ that exports the kernels, as ``include/metal_host/abi.h`` says."""
    rows, parts = [], ["extern const MetalHostKernel metal_host_table[];\n"]
    for number, function in enumerate(functions):
        parts.append(_launcher(number, function, function.plain_name in waiting))
        buffers = [
            a.index for a in function.arguments if a.kind in ("device", "constant", "reference")
        ]
        rows.append(
            f'  {{"{function.exported_name}", metal_host_arguments_{number}, '
            f"{len(function.memory_arguments)}u, {max(buffers, default=-1) + 1}u, "
            f"(unsigned int)({function.max_threads}), "
            f"{int(function.plain_name in waiting)}u, metal_host_launch_{number}}},\n"
        )
    return (
        "".join(parts)
        + "const MetalHostKernel metal_host_table[] = {\n"
        + "".join(rows)
        + "  {nullptr, nullptr, 0, 0, 0, 0, nullptr}};\n"
        'extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) '
        "const MetalHostKernel* metal_host_kernels(unsigned int* abi, unsigned int* count) {\n"
        f"  *abi = METAL_HOST_ABI;\n  *count = {len(functions)};\n  return metal_host_table;\n}}\n"
    )


_KIND_NAMES: Final = {
    "device": "kMetalHostDevicePointer",
    "constant": "kMetalHostConstantPointer",
    "reference": "kMetalHostConstantReference",
    "threadgroup": "kMetalHostGroupMemory",
}


def _launcher(number: int, function: KernelFunction, waits: bool) -> str:
    kinds, values = [], []
    for place, argument in enumerate(function.arguments):
        parameter = f"metal_host::Parameter<metal_host_function_{number}, {place}>"
        if argument.kind in _KIND_NAMES:
            get = "group_argument" if argument.kind == "threadgroup" else "buffer"
            values.append(f"metal_host::{get}<{parameter}>({argument.index}u)")
            kinds.append(
                f"{{{_KIND_NAMES[argument.kind]}, {argument.index}u, "
                f"metal_host::pointee_nbytes<{parameter}>}}"
            )
        else:
            values.append(f"metal_host::as_parameter<{parameter}>(at.{argument.kind}())")
    return (
        f"using metal_host_function_{number} = decltype(&{function.name});\n"
        f"static const MetalHostArgument metal_host_arguments_{number}[] = "
        f"{{{', '.join(kinds) or '{}'}}};\n"
        f'__attribute__((no_sanitize("thread"))) static void metal_host_body_{number}('
        f"const metal_host::Thread& at) {{\n"
        f"  {function.name}({', '.join(values)});\n}}\n"
        f"static int metal_host_launch_{number}(const MetalHostDispatch* dispatch) {{\n"
        f"  return metal_host::launch(metal_host_table[{number}], *dispatch, "
        f"{str(not waits).lower()}, "
        f"metal_host::{'run_one' if waits else 'run_alone'}<metal_host_body_{number}>);\n}}\n"
    )
