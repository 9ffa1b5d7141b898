"""Metal source as a list of top-level declarations.

Enough of the language to cut a source apart between declarations, no more: comments, strings,
brackets, preprocessor lines, and namespaces, whose content counts as top level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<space>[^\S\n]+|\n)
    |(?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPEN, _CLOSE = "([{", ")]}"
_COMMENT_IN_DIRECTIVE = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TYPE_WORDS = ("struct", "class", "enum", "union")


@dataclass(frozen=True)
class Declaration:
    """One piece of a source, without comments.

    Attributes:
        text: the piece.
        names: what it declares; empty for what always stays: conditions, includes, the borders of
            namespaces, operators.
        words: every identifier in it.
    """

    text: str
    names: frozenset[str]
    words: frozenset[str]


def declarations(source: str) -> list[Declaration]:
    """Cut a source apart; the texts in their order, joined by newlines, are the source again."""
    return [_declaration(tokens) for tokens in _pieces(source)]


_Token = tuple[str, str]


def _pieces(source: str) -> Iterator[list[_Token]]:
    piece: list[_Token] = []
    depth = 0
    for kind, text in _tokens(source):
        if kind == "directive":
            if depth == 0:
                yield from _unless_blank(piece)
                piece = []
                yield [(kind, text)]
                continue
            piece.append(("directive", f"\n{text.strip()}\n"))
            continue
        piece.append((kind, text))
        if text in _OPEN and kind == "mark":
            if text == "{" and depth == 0 and _is_namespace(piece):
                yield piece
                piece = []
                continue
            depth += 1
        elif text in _CLOSE and kind == "mark":
            if depth == 0:  # the end of a namespace
                yield piece
                piece = []
                continue
            depth -= 1
        if depth == 0 and kind == "mark" and (text == ";" or (text == "}" and _is_function(piece))):
            yield piece
            piece = []
    yield from _unless_blank(piece)


def _tokens(source: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(source):
        kind = str(found.lastgroup)
        if kind == "comment":
            yield "space", " "
        elif kind == "space":
            yield kind, "\n" if found.group() == "\n" else " "
        elif kind == "directive":
            yield kind, _COMMENT_IN_DIRECTIVE.sub(" ", found.group()).rstrip()
        else:
            yield kind, found.group()


def _unless_blank(piece: list[_Token]) -> Iterator[list[_Token]]:
    if any(kind != "space" for kind, _ in piece):
        yield piece


def _words(piece: list[_Token]) -> list[str]:
    return [text for kind, text in piece if kind == "word"]


def _is_namespace(piece: list[_Token]) -> bool:
    return "namespace" in _words(piece)[:2]


def _is_function(piece: list[_Token]) -> bool:
    """Whether a closing brace ends it; after a type or a table a semicolon follows."""
    head = _head(piece)
    return not any(word in _TYPE_WORDS for word in _words(_without_angles(head))) and not any(
        text == "=" for kind, text in _without_angles(head) if kind == "mark"
    )


def _head(piece: list[_Token]) -> list[_Token]:
    """What stands before the first brace outside parentheses."""
    depth = 0
    for index, (kind, text) in enumerate(piece):
        if kind == "mark":
            if text == "{" and depth == 0:
                return piece[:index]
            depth += (text in "([") - (text in ")]")
    return piece


def _without_angles(tokens: list[_Token]) -> list[_Token]:
    """Leave template parameters and arguments out, and what is in parentheses."""
    left: list[_Token] = []
    angles = parentheses = 0
    for kind, text in tokens:
        if kind == "mark" and parentheses == 0 and text == "<":
            angles += 1
        elif kind == "mark" and parentheses == 0 and text == ">":
            angles = max(angles - 1, 0)
        elif kind == "mark" and text in "([":
            parentheses += 1
            if angles == 0 and parentheses == 1:
                left.append((kind, text))
        elif kind == "mark" and text in ")]":
            parentheses -= 1
        elif angles == 0 and parentheses == 0:
            left.append((kind, text))
    return left


def _without_alignment(head: list[_Token]) -> list[_Token]:
    """Leave ``alignas(...)`` out, of which ``_without_angles`` has left the first two tokens."""
    kept: list[_Token] = []
    for token in head:
        if kept and kept[-1][1] == "alignas":
            kept.pop()
        else:
            kept.append(token)
    return kept


def _declaration(piece: list[_Token]) -> Declaration:
    text = "".join(_one_space(piece))
    text = "\n".join(line for line in map(str.strip, text.splitlines()) if line)
    if piece[0][0] == "directive":
        words = frozenset(re.findall(r"[A-Za-z_]\w*", text))
        macro = re.match(r"#\s*define\s+(\w+)", text)
        return Declaration(text, frozenset([macro[1]] if macro else []), words)
    nested = "\n".join(text for kind, text in piece if kind == "directive")
    words = frozenset(_words(piece)) | frozenset(re.findall(r"[A-Za-z_]\w*", nested))
    return Declaration(text, _names(piece), words)


def _one_space(piece: list[_Token]) -> Iterator[str]:
    """The texts of tokens, without spaces after spaces."""
    before = ""
    for _, text in piece:
        if (text, before) != (" ", " "):
            yield text
        before = text


def _names(piece: list[_Token]) -> frozenset[str]:
    if _is_namespace(piece) or not _words(piece):
        return frozenset()
    head = _without_alignment(
        [token for token in _without_angles(_head(piece)) if token[0] != "space"]
    )
    words = [text for kind, text in head if kind == "word"]
    if "operator" in words or "kernel" in words or (words[0] == "using" and "namespace" in words):
        return frozenset()
    for index, (kind, text) in enumerate(head):
        before = head[index - 1][1] if index else ""
        if kind == "word" and before in _TYPE_WORDS and text not in _TYPE_WORDS:
            return frozenset([text])
        if kind == "mark" and text in "(=[" and index and head[index - 1][0] == "word":
            return frozenset([before])
    return frozenset(words[-1:])
