"""What the text of a Metal library says of its kernels, and which functions make threads wait."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from metal_tokens import (
    MetalSyntaxError,
    Token,
    closing,
    closing_angle,
    significant,
    split_commas,
    tokenize,
)

BUILT_INS: Final = frozenset(
    {
        "dispatch_threads_per_threadgroup",
        "simdgroup_index_in_threadgroup",
        "simdgroups_per_threadgroup",
        "thread_execution_width",
        "thread_index_in_simdgroup",
        "thread_index_in_threadgroup",
        "thread_position_in_grid",
        "thread_position_in_threadgroup",
        "threadgroup_position_in_grid",
        "threadgroups_per_grid",
        "threads_per_grid",
        "threads_per_simdgroup",
        "threads_per_threadgroup",
    }
)
_WAITING: Final = re.compile(
    r"simd_\w+|threadgroup_barrier|simdgroup_(?:barrier|load|store|multiply|multiply_accumulate|matrix)"
    r"|make_filled_simdgroup_matrix|simdgroup_\w+8x8"
)


@dataclass(frozen=True)
class KernelArgument:
    """A parameter: ``kind`` is device, constant, reference, threadgroup or a built-in's name."""

    kind: str
    index: int


@dataclass
class KernelFunction:
    """A kernel as a library offers it; of a template, one instantiation."""

    exported_name: str
    name: str  # as C++ calls it
    arguments: list[KernelArgument]
    max_threads: str = "0"  # a constant expression; 0: the text says nothing

    @property
    def plain_name(self) -> str:
        """Without namespaces and template arguments."""
        return re.sub(r"<.*", "", self.name).split("::")[-1].strip()

    @property
    def memory_arguments(self) -> list[KernelArgument]:
        """Those that the host gives."""
        return [argument for argument in self.arguments if argument.kind not in BUILT_INS]


@dataclass
class _Declaration:
    """One declaration of a kernel: a function, a template of functions, or an instantiation."""

    line: int
    name: str
    attributes: dict[str, str]
    parameters: list[list[Token]]
    is_template: bool
    is_instantiation: bool
    tokens: list[Token] = field(default_factory=list)  # all, of an instantiation


def find_kernels(tokens: list[Token]) -> list[KernelFunction]:
    """The kernels of a library. Explicit instantiations are taken out of the text.

    Raises:
        MetalSyntaxError: a kernel cannot be understood, or a template is missing.
    """
    templates: dict[str, _Declaration] = {}
    result: list[KernelFunction] = []
    for declaration in _declarations(significant(tokens)):
        plain = re.sub(r"<.*", "", declaration.name).split("::")[-1].strip()
        if declaration.is_template:
            templates[plain] = declaration
            continue
        source = declaration
        if declaration.is_instantiation:
            if plain not in templates:
                raise MetalSyntaxError(
                    declaration.line, f"no template of kernel '{plain}' before this"
                )
            source = templates[plain]
            for token in declaration.tokens:
                token.blank()
        attributes = {**source.attributes, **declaration.attributes}
        result.append(
            KernelFunction(
                exported_name=attributes.get("host_name", plain).replace('"', ""),
                name=declaration.name,
                arguments=_arguments(source),
                max_threads=attributes.get("max_total_threads_per_threadgroup", "0"),
            )
        )
    return result


def _declarations(tokens: list[Token]) -> list[_Declaration]:
    result = []
    start, index = 0, 0
    namespaces: list[str] = []
    while index < len(tokens):
        token = tokens[index]
        if token.kind == "directive" or token.text == ";":
            start = index + 1
        elif token.text == "}":
            if namespaces:
                namespaces.pop()
            start = index + 1
        elif token.text == "{":
            head = [t.text for t in tokens[start:index]]
            if "namespace" in head:
                namespaces.append("".join(head[head.index("namespace") + 1 :]))
                start = index + 1
            elif any(word in head for word in ("struct", "class", "enum", "union")) or ")" in head:
                index = closing(tokens, index)
                start = index + 1
            else:
                index = closing(tokens, index)
        elif token.text == "(" and _is_kernel(tokens[start:index]):
            declaration, index = _declaration(tokens, start, index, namespaces)
            result.append(declaration)
            start = index + 1
        index += 1
    return result


def _is_kernel(head: list[Token]) -> bool:
    """Whether ``head``, which ends before a parenthesis, is that of a kernel, and whole."""
    depth = 0
    for token in head:
        depth += {"[": 1, "]": -1}.get(token.text, 0)
    words = [token.text for token in head]
    return depth == 0 and "kernel" in words and words[-1] != "kernel"


def _declaration(
    tokens: list[Token], start: int, opening: int, namespaces: list[str]
) -> tuple[_Declaration, int]:
    """The declaration from ``start`` on whose parameters open at ``opening``, and where it ends."""
    end = closing(tokens, opening)
    after = end + 1
    while after < len(tokens) and tokens[after].text == "[":
        after = closing(tokens, after) + 1
    if after == len(tokens) or tokens[after].text not in ("{", ";"):
        raise MetalSyntaxError(tokens[opening].line, "a kernel without a body")
    attributes, head = _split_attributes(tokens[start:opening])
    attributes.update(_split_attributes(tokens[end + 1 : after])[0])
    is_instantiation = head[0].text == "template" and head[1].text != "<"
    is_template = head[0].text == "template" and not is_instantiation
    if is_template:
        head = head[closing_angle(head, 1) + 1 :]
    words = [token.text for token in head]
    if "void" not in words:
        raise MetalSyntaxError(tokens[opening].line, "a kernel that does not return void")
    name = "".join(words[words.index("void") + 1 :])
    if not is_instantiation:
        name = "::".join(["", *namespaces, name])
    declaration = _Declaration(
        line=tokens[opening].line,
        name=name,
        attributes=attributes,
        parameters=split_commas(tokens[opening + 1 : end]),
        is_template=is_template,
        is_instantiation=is_instantiation,
        tokens=tokens[start : after + 1],
    )
    return declaration, closing(tokens, after) if tokens[after].text == "{" else after


def _split_attributes(tokens: list[Token]) -> tuple[dict[str, str], list[Token]]:
    """``[[name(argument)]]`` as a dictionary, and what else there is."""
    attributes: dict[str, str] = {}
    rest: list[Token] = []
    index = 0
    while index < len(tokens):
        inside = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if tokens[index].text == "[" and inside == "[":
            end = closing(tokens, index)
            for part in split_commas(tokens[index + 2 : end - 1]):
                attributes[part[0].text] = "".join(token.text for token in part[2:-1])
            if "kernel" in attributes:
                rest.append(tokens[index + 2])
            index = end
        else:
            rest.append(tokens[index])
        index += 1
    return attributes, rest


def _arguments(declaration: _Declaration) -> list[KernelArgument]:
    """Parameters in order; those without an index get the next one that is free."""
    parsed = [_split_attributes(parameter) for parameter in declaration.parameters]
    taken = {attributes["buffer"] for attributes, _ in parsed if "buffer" in attributes}
    result, following = [], 0
    for attributes, rest in parsed:
        words = [token.text for token in rest]
        built_in = BUILT_INS.intersection(attributes)
        if built_in:
            result.append(KernelArgument(min(built_in), 0))
        elif "threadgroup" in attributes:
            result.append(
                KernelArgument("threadgroup", _index(attributes, "threadgroup", declaration))
            )
        elif "*" in words or "&" in words:
            while "buffer" not in attributes and str(following) in taken:
                following += 1
            index = (
                _index(attributes, "buffer", declaration) if "buffer" in attributes else following
            )
            following += "buffer" not in attributes
            kind = "reference" if "&" in words else "constant" if "constant" in words else "device"
            result.append(KernelArgument(kind, index))
        else:
            known = ", ".join(attributes) or "none"
            raise MetalSyntaxError(
                declaration.line,
                f"parameter '{words[-1]}' of a kernel has attributes that are not known: {known}",
            )
    return result


def _index(attributes: dict[str, str], name: str, declaration: _Declaration) -> int:
    if not attributes[name].isdigit():
        raise MetalSyntaxError(declaration.line, f"[[{name}({attributes[name]})]] is no number")
    return int(attributes[name])


def waiting_functions(tokens: list[Token]) -> set[str]:
    """Names of functions and macros that, themselves or through others, make threads wait."""
    uses: dict[str, set[str]] = {}
    _collect_uses(significant(tokens), uses)
    waiting = {name for name, words in uses.items() if any(_WAITING.fullmatch(w) for w in words)}
    while True:
        more = {name for name, words in uses.items() if words & waiting} - waiting
        if not more:
            return waiting
        waiting |= more


def _collect_uses(tokens: list[Token], uses: dict[str, set[str]]) -> None:
    """For each function and macro, the words that stand in it."""
    start, index = 0, 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind == "directive":
            define = re.match(r"\s*#\s*define\s+(\w+)", token.text)
            if define:
                words = {t.text for t in tokenize(token.text[define.end() :]) if t.kind == "word"}
                uses.setdefault(define.group(1), set()).update(words)
            start = index + 1
        elif token.text in (";", "}"):
            start = index + 1
        elif token.text == "{":
            name = _function_name(tokens[start:index])
            if name:
                end = closing(tokens, index)
                words = {t.text for t in tokens[start:end] if t.kind == "word"} - {name}
                uses.setdefault(name, set()).update(words)
                index = end
            start = index + 1
        index += 1


def _function_name(head: list[Token]) -> str:
    """Name of the function whose body follows ``head``; empty if it is none."""
    if head and head[0].text == "template" and len(head) > 1 and head[1].text == "<":
        head = head[closing_angle(head, 1) + 1 :]
    _, head = _split_attributes(head)
    index = 0
    while index < len(head):
        text = head[index].text
        if text == "<":
            try:
                index = closing_angle(head, index)
            except MetalSyntaxError:
                return ""
        elif text == "(" and index and head[index - 1].text not in ("decltype", "alignas"):
            return head[index - 1].text if head[index - 1].kind == "word" else "operator"
        elif text == "(":
            index = closing(head, index)
        elif text == "=":
            return ""
        index += 1
    return ""
