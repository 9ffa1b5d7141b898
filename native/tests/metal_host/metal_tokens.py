"""Tokens of C++-like text: enough to rewrite Metal without losing a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:\s|\\\n|//[^\n]*|/\*.*?\*/)+)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[eEpP][+-](?=\d)|[\w.]|'(?=\w))*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<mark>::|->|<<=|>>=|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE: Final = re.compile(
    r"[ \t]*\#(?:[^\n\\/]|\\.|\\\n|/\*.*?\*/|/(?!/|\*)|//[^\n]*)*", re.DOTALL
)
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}


class MetalSyntaxError(Exception):
    """Metal that cannot be translated; the message starts with file and line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"program_source:{line}: error: {message}")


@dataclass
class Token:
    """One token. ``kind`` is space, directive, string, number, word or mark."""

    kind: str
    text: str
    line: int

    def blank(self) -> None:
        """Take the token out, but keep its line breaks."""
        self.kind = "space"
        self.text = "\n" * self.text.count("\n") or " "


def tokenize(text: str) -> list[Token]:
    """Split text into tokens whose texts joined are the text again."""
    tokens: list[Token] = []
    position, line, fresh = 0, 1, True
    while position < len(text):
        match = _DIRECTIVE.match(text, position) if fresh else None
        kind = "directive"
        if match is None:
            match = _TOKEN.match(text, position)
            assert match is not None
            assert match.lastgroup is not None
            kind = match.lastgroup
        token = Token(kind, match.group(), line)
        fresh = kind == "space" and "\n" in token.text
        tokens.append(token)
        position = match.end()
        line += token.text.count("\n")
    return tokens


def join(tokens: list[Token]) -> str:
    """The text of tokens."""
    return "".join(token.text for token in tokens)


def significant(tokens: list[Token]) -> list[Token]:
    """Tokens without space."""
    return [token for token in tokens if token.kind != "space"]


def closing(tokens: list[Token], start: int) -> int:
    """Index of the bracket that closes the one at ``start``.

    Raises:
        MetalSyntaxError: there is none.
    """
    stack: list[str] = []
    for index in range(start, len(tokens)):
        text = tokens[index].text
        if tokens[index].kind != "mark":
            continue
        if text in _OPENING:
            stack.append(_OPENING[text])
        elif text in _OPENING.values():
            if not stack or stack.pop() != text:
                raise MetalSyntaxError(tokens[index].line, f"'{text}' closes nothing")
            if not stack:
                return index
    raise MetalSyntaxError(tokens[start].line, f"'{tokens[start].text}' is never closed")


def closing_angle(tokens: list[Token], start: int) -> int:
    """Index of the ``>`` that closes the ``<`` at ``start``, of significant tokens."""
    depth, index = 0, start
    while index < len(tokens):
        text = tokens[index].text
        if text in _OPENING:
            index = closing(tokens, index)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return index
        index += 1
    raise MetalSyntaxError(tokens[start].line, "'<' is never closed")


def split_commas(tokens: list[Token]) -> list[list[Token]]:
    """Split significant tokens at commas outside of brackets of any kind."""
    parts: list[list[Token]] = [[]]
    index = 0
    while index < len(tokens):
        text = tokens[index].text
        if text == ",":
            parts.append([])
        else:
            end = index
            if text in _OPENING:
                end = closing(tokens, index)
            elif text == "<":
                end = closing_angle(tokens, index)
            parts[-1] += tokens[index : end + 1]
            index = end
        index += 1
    return [part for part in parts if part]
