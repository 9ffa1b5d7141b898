"""What a wrapper with a loop does, statement by statement, to compare it with one without.

It follows the loop as C++ would, and calls each variable by when it was declared and each constant
by its name in the program, so that two wrappers that do the same read the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"[A-Za-z_]\w*|\d+|\s+|.")
_DECLARED = re.compile(
    r"(?:static constexpr |static const )?[\w:]+[*&]? ([A-Za-z_]\w*)(?:\[\])?(?:;|\(| = )"
)
_ALIAS = re.compile(r"(?:\[\[maybe_unused\]\] )?auto& (\w+) = \(\*constants_\)\[(.*)\];")
_DESCRIBED = re.compile(r"describe_constant\(constants_info_\[(.*?)\], (.*?), (.*?), \"")
_NAMES = re.compile(r"static const char\* const (\w+)\[\]\[2\] = \{(.*)\};")
_LOOP = re.compile(r"    for \(size_t aotip_layer = 0; aotip_layer < (\d+); \+\+aotip_layer\) \{")


def unrolled(wrapper: str) -> list[str]:
    """The statements of a wrapper's ``run_impl``."""
    start = wrapper.index("\nvoid AOTInductorModel::run_impl(")
    fqns = _fqns(wrapper[:start])
    lines = wrapper[start : wrapper.index("\n} // AOTInductorModel::run_impl")].split("\n")
    begin = next(place for place, line in enumerate(lines) if "(*constants_)[" in line)
    found: list[str] = []
    released: list[str] = []
    for line in _Followed(fqns).lines(lines[begin:]):
        if line.endswith(".reset();"):  # of several at once by their names, whatever these are
            released.append(line)
        else:
            found += [*sorted(released), line]
            released = []
    return found + sorted(released)


def has_loop(wrapper: str) -> bool:
    """Whether there is one in ``run_impl``."""
    start = wrapper.index("\nvoid AOTInductorModel::run_impl(")
    return _LOOP.search(wrapper[start:]) is not None


def _fqns(text: str) -> dict[int, str]:
    """What each constant of the table is."""
    names = {one[1]: re.findall(r'\{"[^"]*", "([^"]*)"\}', one[2]) for one in _NAMES.finditer(text)}
    found = {}
    for place, _, fqn in _DESCRIBED.findall(text):
        listed = re.fullmatch(r"(\w+)\[aotip_layer\]\[1\]", fqn)
        if listed is None:
            found[int(place)] = fqn.strip('"')
            continue
        first = int(place.partition(" + ")[0])
        assert place == f"{first} + aotip_layer"
        found |= {first + layer: one for layer, one in enumerate(names[listed[1]])}
    return found


class _Followed:
    def __init__(self, fqns: dict[int, str]) -> None:
        self._fqns = fqns
        self._names: dict[str, str] = {}
        self._inputs: set[str] = set()
        self._declared = 0
        self._marks: list[list[str]] = []

    def lines(self, lines: list[str]) -> Iterator[str]:
        """Statements; loops as often as they go round."""
        rest = iter(lines)
        for line in rest:
            loop = _LOOP.fullmatch(line)
            if loop is not None:
                body = []
                while (inner := next(rest)) != "    }":
                    body.append(inner)
                outside = dict(self._names)
                for layer in range(int(loop[1])):
                    for one in body:
                        yield from self._statement(one.strip(), layer)
                self._names = {name: self._names[name] for name in outside}
            elif "aotip_marks[]" in line:
                while (row := next(rest)) != "    };":
                    self._marks.append(re.findall(r'"([^"]*)"', row))
            else:
                yield from self._statement(line.strip(), 0)

    def _statement(self, line: str, layer: int) -> Iterator[str]:
        if not line or line.startswith("//"):
            return
        alias = _ALIAS.fullmatch(line)
        if alias is not None:
            place = sum(
                layer if one == "aotip_layer" else int(one) for one in alias[2].split(" + ")
            )
            self._names[alias[1]] = self._fqns[place]
            return
        carried = re.fullmatch(r"(\w+) = std::move\((\w+)\);", line)
        if carried is not None and carried[1] in self._names:
            self._names[carried[1]] = self._names[carried[2]]
            return
        line = re.sub(
            r"aotip_marks\[aotip_layer\]\[(\d+)\]",
            lambda found: f'"{self._marks[layer][int(found[1])]}"',
            line,
        )
        line = re.sub(r'"(\w+:\d+)\.\w+"', r'"\1"', line)
        declared = _DECLARED.match(line)
        words = _WORD.findall(line)
        for word in words:  # inputs are numbered behind the constants
            if re.fullmatch(r"arg\d+_1", word):
                self._names.setdefault(word, f"input {len(self._inputs)}")
                self._inputs.add(word)
        if declared is None:
            yield "".join(self._names.get(word, word) for word in words)
            return
        self._declared += 1
        name = f"variable {self._declared}"
        yield "".join(
            name if word == declared[1] else self._names.get(word, word) for word in words
        )
        self._names[declared[1]] = name
