"""Find in a wrapper where the statements of a layer follow on those of the layer before.

They are compared word by word: variables and constants are others in the next layer, always the
same others, and all else is equal.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aoti_plugins.lowering.inductor.capture import GeneratedConstant
from aoti_plugins.lowering.layers.runs import Run, longest_run
from aoti_plugins.lowering.layers.short_program import ShortProgram

WORD = re.compile(r"[A-Za-z_]\w*|\d+|\s+|.")
MARK = re.compile(r'"(?P<kernel>\w+):(?P<number>\d+)(?P<output>\.\w+)?"')
_DECLARATION = re.compile(
    r" *(?:static |constexpr |const )*[\w:]+[*&]? ([A-Za-z_]\w*)(?:\[\])?(?:;|\(| = )"
)
_RELEASE = re.compile(r" *([A-Za-z_]\w*)\.reset\(\);")
_OWNER = re.compile(
    r" *(?:RAIIAtenTensorHandle \w+\(\w+\);"
    r"|auto \w+ = (?:std::move|wrap_with_raii_handle_if_needed)\()"
)


class NoLoopError(Exception):
    """The text of a wrapper does not show how it would go on; says why."""


@dataclass(frozen=True)
class LayerConstant:
    """One of those of which each layer has one.

    Attributes:
        chain: its number among ``ShortProgram.constants``.
        place: which layer's it is in the short program.
    """

    chain: int
    place: int


class Body:
    """The statements of ``run_impl``.

    Attributes:
        lines: all of them, with comments. Where several variables are released one after the other,
            which Inductor does in the order of their names, they are in that of declarations.
        code: numbers of those that are not.
        words: what each line of code consists of, without the numbers of marks.
        marks: these, of each line of code.
        declared: in which line of code each variable is declared.
        owners: variables that own a tensor, and can be given another.
    """

    def __init__(self, text: str) -> None:
        self.lines = _with_releases_in_order(text.split("\n"))
        stripped = enumerate(map(str.lstrip, self.lines))
        self.code = [number for number, line in stripped if line and not line.startswith("//")]
        texts = [self.lines[number] for number in self.code]
        self.words = [WORD.findall(MARK.sub(r'"\g<kernel>:\g<output>"', one)) for one in texts]
        self.marks = [[int(found["number"]) for found in MARK.finditer(one)] for one in texts]
        found = {place: _DECLARATION.match(one) for place, one in enumerate(texts)}
        self.declared = {one[1]: place for place, one in found.items() if one is not None}
        self.owners = {name for name, place in self.declared.items() if _OWNER.match(texts[place])}

    def symbol(self, place: int, known: Mapping[str, LayerConstant]) -> str:
        """A line of code, whichever variables and constants it has."""
        return "".join(
            "%" if word in self.declared else f"@{known[word].chain}" if word in known else word
            for word in self.words[place]
        )

    def names(self, start: int, stop: int) -> set[str]:
        """Words in lines of code."""
        return {word for words in self.words[start:stop] for word in words}


def _with_releases_in_order(lines: Sequence[str]) -> list[str]:
    declared: dict[str, int] = {}
    for line in lines:
        found = _DECLARATION.match(line)
        if found is not None:
            declared.setdefault(found[1], len(declared))

    def place(line: str) -> int:
        return declared.get(line.strip().partition(".")[0], -1)

    ordered: list[str] = []
    for is_release, group in itertools.groupby(lines, lambda line: bool(_RELEASE.fullmatch(line))):
        together = list(group)
        ordered += sorted(together, key=place) if is_release else together
    return ordered


@dataclass(frozen=True)
class Loop:
    """Where the statements of a layer follow on those of the one before.

    Attributes:
        run: of lines of code; a pass is a period.
        passes: how often to go round.
        layers: how many layers a pass is of.
        carried: variables that a pass takes from the one before, with those that it leaves.
        renamed: variables behind the loop that the last pass made, with what they are now.
        before: constants of layers that are used in front of the loop.
        inside: those of the first pass.
        behind: those behind the loop.
        mark: the number of the first mark in the loop.
        marks: how many numbers a pass has.
    """

    run: Run
    passes: int
    layers: int
    carried: Mapping[str, str]
    renamed: Mapping[str, str]
    before: Mapping[str, LayerConstant]
    inside: Mapping[str, LayerConstant]
    behind: Mapping[str, LayerConstant]
    mark: int
    marks: int

    @property
    def more(self) -> int:
        """How many passes the short program does not have."""
        return self.passes - self.run.count


def known_constants(
    constants: Sequence[GeneratedConstant], short: ShortProgram
) -> dict[str, LayerConstant]:
    """Those of which each layer has one, by their names in the wrapper."""
    places = {
        fqn: LayerConstant(number, place)
        for number, chain in enumerate(short.constants)
        for place, fqn in enumerate(chain[: len(chain) - short.left_out])
    }
    return {one.name: places[one.fqn] for one in constants if one.fqn in places}


def first_loop(body: Body, known: Mapping[str, LayerConstant], short: ShortProgram) -> Loop:
    """The loop that begins first; a pass can begin at each statement of a layer.

    Args:
        body: of the short program's wrapper.
        known: what ``known_constants`` gave.
        short: the program.

    Raises:
        NoLoopError: there is no loop that one can be sure of.
    """
    run = longest_run([body.symbol(place, known) for place in range(len(body.code))], 2)
    if run is None:
        raise NoLoopError("no statements are like those before them")
    reasons = []
    for shift in range(run.rest + 1):
        try:
            return _loop(body, replace(run, start=run.start + shift), known, short)
        except NoLoopError as error:
            reasons.append(str(error))
    raise NoLoopError("; ".join(dict.fromkeys(reasons)))


def _loop(body: Body, run: Run, known: Mapping[str, LayerConstant], short: ShortProgram) -> Loop:
    following = _following(body, run, known)
    first = range(run.start, run.start + run.period)
    behind = body.names(run.end, len(body.code))
    carried = _carried(body, first, following, known)
    if carried.keys() & behind:
        raise NoLoopError("what is behind it uses what was in front of it")
    numbers = {number for place in first for number in body.marks[place]}
    layers = _layers(following, known)
    if short.left_out % layers:
        raise NoLoopError(f"a pass is of {layers} layers, and {short.left_out} are to be added")
    loop = Loop(
        run=run,
        passes=run.count + short.left_out // layers,
        layers=layers,
        carried=carried,
        renamed=_renamed(body, run, following, carried, behind),
        before=_among(known, body.names(0, run.start)),
        inside=_among(known, body.names(first.start, first.stop)),
        behind=_among(known, behind),
        mark=min(numbers, default=0),
        marks=len(numbers),
    )
    _check_marks(body, loop)
    _check_constants(loop, known, short)
    return loop


def _among(known: Mapping[str, LayerConstant], names: set[str]) -> dict[str, LayerConstant]:
    return {name: one for name, one in known.items() if name in names}


def _following(body: Body, run: Run, known: Mapping[str, LayerConstant]) -> dict[str, str]:
    """What the variables and constants of a pass are in the next one."""
    following: dict[str, str] = {}
    for place in range(run.start, run.end - run.period):
        words, others = body.words[place], body.words[place + run.period]
        if len(words) != len(others):
            raise NoLoopError("a statement has not as many words in the next pass")
        for word, other in zip(words, others, strict=True):
            if word not in body.declared and word not in known:
                fits = word == other
            else:
                fits = following.setdefault(word, other) == other
            if word in body.declared:
                at = body.declared[word]
                moved = body.declared.get(other, -1) - at
                fits = fits and (moved == run.period if at >= run.start else moved >= 0)
            if not fits:
                raise NoLoopError(f"{word!r} is {other!r} in the next pass")
    if len(set(following.values())) < len(following):
        raise NoLoopError("two variables are one in the next pass")
    return following


def _carried(
    body: Body, first: range, following: Mapping[str, str], known: Mapping[str, LayerConstant]
) -> dict[str, str]:
    """Variables from in front of the first pass in whose place the next one has its own."""
    carried = {}
    for name, other in following.items():
        if name in known or name == other or body.declared[name] >= first.start:
            continue
        if body.declared[other] not in first:
            raise NoLoopError(f"{other!r} is not made in the pass before it is used")
        if not {name, other} <= body.owners:
            raise NoLoopError(f"{name!r} or {other!r} does not own its tensor")
        carried[name] = other
    return carried


def _renamed(
    body: Body,
    run: Run,
    following: Mapping[str, str],
    carried: Mapping[str, str],
    behind: set[str],
) -> dict[str, str]:
    """What variables of the last pass are behind the loop."""
    earlier = {other: name for name, other in following.items()}
    left = {other: name for name, other in carried.items()}
    found = {}
    for name in behind & body.declared.keys():
        if not run.start <= body.declared[name] < run.end:
            continue
        first = name
        for _ in range(run.count - 1):
            first = earlier.get(first, "")
        if first not in left:
            raise NoLoopError(f"{name!r} is used behind it, and not by the next pass")
        found[name] = left[first]
    return found


def _layers(following: Mapping[str, str], known: Mapping[str, LayerConstant]) -> int:
    """How many layers a pass is of."""
    found = set()
    for name, other in following.items():
        if name not in known:
            continue
        if other not in known or known[other].chain != known[name].chain:
            raise NoLoopError(f"{name!r} is {other!r} in the next pass")
        found.add(known[other].place - known[name].place)
    if len(found) != 1 or min(found) < 1:
        raise NoLoopError("passes are not of equally many layers")
    return found.pop()


def _check_marks(body: Body, loop: Loop) -> None:
    run = loop.run
    for place in range(run.start, run.end - run.period):
        pairs = zip(body.marks[place], body.marks[place + run.period], strict=True)
        if any(other - one != loop.marks for one, other in pairs):
            raise NoLoopError("a pass begins within the call of a kernel")


def _check_constants(loop: Loop, known: Mapping[str, LayerConstant], short: ShortProgram) -> None:
    """Refuse what does not use the constants of each layer where the loop has them."""
    for chain in {one.chain for one in known.values()}:
        places = {one.place for one in known.values() if one.chain == chain}
        inside = {one.place for one in loop.inside.values() if one.chain == chain}
        before = [one.place for one in loop.before.values() if one.chain == chain]
        behind = [one.place for one in loop.behind.values() if one.chain == chain]
        name = short.constants[chain][0]
        if places != set(range(len(short.constants[chain]) - short.left_out)):
            raise NoLoopError(f"not all layers have one like {name}")
        if not inside or inside != set(range(min(inside), max(inside) + 1)):
            raise NoLoopError(f"not all passes have one like {name}")
        last = max(inside) - loop.layers
        if len(inside) < loop.layers or any(place > last for place in before):
            raise NoLoopError(f"one like {name} is used in front of it and in it")
        if any(place < min(inside) + loop.run.count * loop.layers for place in behind):
            raise NoLoopError(f"one like {name} is used in it and behind it")
