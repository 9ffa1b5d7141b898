"""Write a loop over layers into the wrapper of a program that has only some of them.

``layers/short_program.py`` leaves layers out. In the wrapper of what is left, the statements of a
layer follow on those of the layer before, with other variables and constants. They are found in the
text and compared word by word; then those of one become the body of a loop over all that there are.
Where the text is not like that, there is no loop, and the whole program has to be generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from aoti_plugins.lowering.inductor.capture import GeneratedCode, GeneratedConstant
from aoti_plugins.lowering.inductor.kernel_sites import KernelSite
from aoti_plugins.lowering.layers.runs import Run, longest_run
from aoti_plugins.lowering.layers.short_program import ShortProgram

_WRAPPER = re.compile(
    r"(?P<before>.*\nvoid AOTInductorModel::run_impl\(\n.*?)"
    r"(?P<aliases>(?:    \[\[maybe_unused\]\] auto& \w+ = \(\*constants_\)\[\d+\];\n)+)"
    r"(?P<body>.*?)"
    r"(?P<after>\n\} // AOTInductorModel::run_impl\n.*)",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z_]\w*|\d+|\s+|.")
_DECLARATION = re.compile(
    r" *(?:static |constexpr |const )*[\w:]+[*&]? ([A-Za-z_]\w*)(?:\[\])?(?:;|\(| = )"
)
_OWNER = re.compile(
    r" *(?:RAIIAtenTensorHandle \w+\(\w+\);"
    r"|auto \w+ = (?:std::move|wrap_with_raii_handle_if_needed)\()"
)
_MARK = re.compile(r'"(?P<kernel>\w+):(?P<number>\d+)(?P<output>\.\w+)?"')
_DESCRIPTION = re.compile(
    r"(?P<more>(?:    constants_info_\[\d+\]\.[^\n]*;\n)*)"
    r"    ::aotip::describe_constant\(constants_info_\[\d+\], "
    r'"(?P<name>\w+)", "(?P<fqn>[^"\\]*)", (?P<rest>[^\n]*)\);\n'
)
_NUM_CONSTANTS = re.compile(r"(: AOTInductorModelBase\(\d+,\s*\d+,\s*)\d+(?=,)")


class NoLoopError(Exception):
    """The text of a wrapper does not show how it would go on; says why."""


def looped(code: GeneratedCode, short: ShortProgram) -> GeneratedCode:
    """The code of the whole program.

    Args:
        code: of the short one.
        short: what it was made of.

    Raises:
        NoLoopError: there is no loop that one can be sure of.
    """
    wrapper = _WRAPPER.fullmatch(code.wrapper)
    if wrapper is None or wrapper["aliases"].count("\n") != len(code.constants):
        raise NoLoopError("its constants are not named once each")
    if 'R"' in wrapper["body"]:
        raise NoLoopError("it has strings of several lines")
    known = _known_constants(code.constants, short)
    body = _Body(wrapper["body"])
    run = longest_run([body.symbol(place, known) for place in range(len(body.code))], 2)
    if run is None:
        raise NoLoopError("no statements are like those before them")
    loop = _first_loop(body, run, known, short)
    table = _table(code.constants, known, short)
    text = _with_descriptions(wrapper["before"], code.constants, known, table)
    text += "".join(_aliases(code.constants, loop, table)) + _with_loop(body, loop, table)
    return replace(
        code,
        wrapper=text + wrapper["after"],
        constants=table.constants,
        sites=tuple(_sites(code.sites, loop)),
    )


@dataclass(frozen=True)
class _Constant:
    """One of those of which each layer has one.

    Attributes:
        chain: its number among ``ShortProgram.constants``.
        place: which layer's it is in the short program.
    """

    chain: int
    place: int


class _Body:
    """The statements of ``run_impl``.

    Attributes:
        lines: all of them, with comments.
        code: numbers of those that are not.
        words: what each line of code consists of, without the numbers of marks.
        marks: these, of each line of code.
        declared: in which line of code each variable is declared.
        owners: variables that own a tensor, and can be given another.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        stripped = enumerate(map(str.lstrip, self.lines))
        self.code = [number for number, line in stripped if line and not line.startswith("//")]
        texts = [self.lines[number] for number in self.code]
        self.words = [_WORD.findall(_MARK.sub(r'"\g<kernel>:\g<output>"', one)) for one in texts]
        self.marks = [[int(found["number"]) for found in _MARK.finditer(one)] for one in texts]
        found = {place: _DECLARATION.match(one) for place, one in enumerate(texts)}
        self.declared = {one[1]: place for place, one in found.items() if one is not None}
        self.owners = {name for name, place in self.declared.items() if _OWNER.match(texts[place])}

    def symbol(self, place: int, known: Mapping[str, _Constant]) -> str:
        """A line of code, whichever variables and constants it has."""
        return "".join(
            "%" if word in self.declared else f"@{known[word].chain}" if word in known else word
            for word in self.words[place]
        )

    def names(self, start: int, stop: int) -> set[str]:
        """Words in lines of code."""
        return {word for words in self.words[start:stop] for word in words}


@dataclass(frozen=True)
class _Loop:
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
    before: Mapping[str, _Constant]
    inside: Mapping[str, _Constant]
    behind: Mapping[str, _Constant]
    mark: int
    marks: int

    @property
    def more(self) -> int:
        """How many passes the short program does not have."""
        return self.passes - self.run.count


def _known_constants(
    constants: Sequence[GeneratedConstant], short: ShortProgram
) -> dict[str, _Constant]:
    """Those of which each layer has one, by their names in the wrapper."""
    places = {
        fqn: _Constant(number, place)
        for number, chain in enumerate(short.constants)
        for place, fqn in enumerate(chain[: len(chain) - short.left_out])
    }
    return {one.name: places[one.fqn] for one in constants if one.fqn in places}


def _first_loop(
    body: _Body, run: Run, known: Mapping[str, _Constant], short: ShortProgram
) -> _Loop:
    """The loop that begins first; a pass can begin at each statement of a layer."""
    reasons = []
    for shift in range(run.rest + 1):
        try:
            return _loop(body, replace(run, start=run.start + shift), known, short)
        except NoLoopError as error:
            reasons.append(str(error))
    raise NoLoopError("; ".join(dict.fromkeys(reasons)))


def _loop(body: _Body, run: Run, known: Mapping[str, _Constant], short: ShortProgram) -> _Loop:
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
    loop = _Loop(
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


def _among(known: Mapping[str, _Constant], names: set[str]) -> dict[str, _Constant]:
    return {name: one for name, one in known.items() if name in names}


def _following(body: _Body, run: Run, known: Mapping[str, _Constant]) -> dict[str, str]:
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
    body: _Body, first: range, following: Mapping[str, str], known: Mapping[str, _Constant]
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
    body: _Body,
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


def _layers(following: Mapping[str, str], known: Mapping[str, _Constant]) -> int:
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


def _check_marks(body: _Body, loop: _Loop) -> None:
    run = loop.run
    for place in range(run.start, run.end - run.period):
        pairs = zip(body.marks[place], body.marks[place + run.period], strict=True)
        if any(other - one != loop.marks for one, other in pairs):
            raise NoLoopError("a pass begins within the call of a kernel")


def _check_constants(loop: _Loop, known: Mapping[str, _Constant], short: ShortProgram) -> None:
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


@dataclass(frozen=True)
class _Table:
    """The constants of the whole program.

    Attributes:
        constants: all, those of layers by layer.
        numbers: places in the wrapper's table of those that are not of layers, by name.
        first: of the first layer's constant, by chain; those of others are behind it.
        chains: those of layers, by chain.
    """

    constants: tuple[GeneratedConstant, ...]
    numbers: Mapping[str, int]
    first: Mapping[int, int]
    chains: Mapping[int, Sequence[GeneratedConstant]]

    def number(self, one: _Constant, layers_on: int = 0) -> int:
        """The place of a layer's constant, or of one some layers behind it."""
        return self.first[one.chain] + one.place + layers_on


def _table(
    constants: Sequence[GeneratedConstant], known: Mapping[str, _Constant], short: ShortProgram
) -> _Table:
    by_fqn = {one.fqn: one for one in constants}
    taken = {one.name for one in constants}
    others = [one for one in constants if one.name not in known]
    chains, first, size = {}, {}, len(others)
    for chain in sorted({one.chain for one in known.values()}):
        fqns = short.constants[chain]
        _check_value(by_fqn[fqns[0]], short)
        elsewhere = [fqn for fqn in fqns[len(fqns) - short.left_out :] if fqn in by_fqn]
        if elsewhere:
            raise NoLoopError(f"{elsewhere[0]} is not for its layer alone")
        chains[chain] = [
            by_fqn.get(fqn) or _constant_like(by_fqn[fqns[0]], fqn, short, taken) for fqn in fqns
        ]
        first[chain] = size
        size += len(fqns)
    layers = max(map(len, chains.values()))
    of_layers = [
        chain[layer] for layer in range(layers) for chain in chains.values() if layer < len(chain)
    ]
    numbers = {one.name: number for number, one in enumerate(others)}
    return _Table((*others, *of_layers), numbers, first, chains)


def _check_value(one: GeneratedConstant, short: ShortProgram) -> None:
    """Refuse a constant of which Inductor has made another."""
    own = short.values[one.fqn]
    is_same = own.dtype == one.value.dtype and own.size() == one.value.size()
    if not is_same or (own.data_ptr() != one.value.data_ptr() and not torch.equal(own, one.value)):
        raise NoLoopError(f"{one.fqn} is not what the program has")


def _constant_like(
    like: GeneratedConstant, fqn: str, short: ShortProgram, taken: set[str]
) -> GeneratedConstant:
    """The constant of a layer that is left out, laid out as another's."""
    value = short.values[fqn]
    if value.stride() != like.value.stride():
        changed = torch.empty_strided(value.size(), like.value.stride(), dtype=value.dtype)
        value = changed.copy_(value)
    name = re.sub(r"\W", "_", fqn)
    while name in taken:
        name += "_"
    taken.add(name)
    return replace(like, name=name, fqn=fqn, value=value)


def _with_descriptions(
    text: str,
    constants: Sequence[GeneratedConstant],
    known: Mapping[str, _Constant],
    table: _Table,
) -> str:
    """What is in front of ``run_impl``, with descriptions of all constants."""
    found = list(_DESCRIPTION.finditer(text))
    text, times = _NUM_CONSTANTS.subn(rf"\g<1>{len(table.constants)}", text)
    names = [one["name"] for one in found]
    whole = "".join(one[0] for one in found)
    if times != 1 or names != [one.name for one in constants] or text.count(whole) != 1:
        raise NoLoopError("its constants are not described as expected")
    described = dict(zip(names, found, strict=True))
    lines = [
        _described(one, str(table.numbers[name]), f'"{name}", "{one["fqn"]}"')
        for name, one in described.items()
        if name not in known
    ]
    for chain, layers in table.chains.items():
        like = {_described(described[one.name], "", "") for one in layers if one.name in described}
        if len(like) != 1 or any(set(one.fqn) & set('"\\\n') for one in layers):
            raise NoLoopError(f"constants like {layers[0].fqn} are not described as it is")
        listed = ", ".join(f'{{"{one.name}", "{one.fqn}"}}' for one in layers)
        names_of, number = f"aotip_names_{chain}", f"{table.first[chain]} + layer"
        name = f"{names_of}[layer][0], {names_of}[layer][1]"
        lines += [
            f"    static const char* const {names_of}[][2] = {{{listed}}};\n",
            f"    for (size_t layer = 0; layer < {len(layers)}; ++layer) {{\n",
            _described(described[layers[0].name], number, name),
            "    }\n",
        ]
    return text.replace(whole, "".join(lines))


def _described(found: re.Match[str], number: str, names: str) -> str:
    """Statements about one constant, as about one with another place and name."""
    info = f"constants_info_[{number}]"
    more = re.sub(r"constants_info_\[\d+\]", info, found["more"])
    return f"{more}    ::aotip::describe_constant({info}, {names}, {found['rest']});\n"


def _aliases(constants: Sequence[GeneratedConstant], loop: _Loop, table: _Table) -> Iterator[str]:
    """Names for constants that are used in front of the loop, behind it, or are not of layers."""
    for name in (one.name for one in constants):
        if name in table.numbers:
            number = table.numbers[name]
        elif name in loop.before:
            number = table.number(loop.before[name])
        elif name in loop.behind:
            number = table.number(loop.behind[name], loop.more * loop.layers)
        else:
            continue
        yield f"    [[maybe_unused]] auto& {name} = (*constants_)[{number}];\n"


def _with_loop(body: _Body, loop: _Loop, table: _Table) -> str:
    run = loop.run
    start, second = body.code[run.start], body.code[run.start + run.period]
    stop = body.code[run.end] if run.end < len(body.code) else len(body.lines)
    marks: list[re.Match[str]] = []

    def marked(found: re.Match[str]) -> str:
        marks.append(found)
        return f"aotip_marks[layer][{len(marks) - 1}]"

    step = f"{loop.layers} * layer" if loop.layers > 1 else "layer"
    lines = [
        *(
            f"    auto& {name} = (*constants_)[{table.number(one)} + {step}];"
            for name, one in loop.inside.items()
        ),
        *(_MARK.sub(marked, line) for line in body.lines[start:second]),
        *(f"    {name} = std::move({other});" for name, other in loop.carried.items()),
    ]
    return "\n".join(
        [
            *body.lines[:start],
            *_table_of_marks(marks, loop),
            f"    for (size_t layer = 0; layer < {loop.passes}; ++layer) {{",
            *(f"    {line}" if line else line for line in lines),
            "    }",
            *(_behind(line, loop) for line in body.lines[stop:]),
        ]
    )


def _table_of_marks(marks: Sequence[re.Match[str]], loop: _Loop) -> Iterator[str]:
    """A table with the marks of each pass, if there are any."""
    if not marks:
        return
    yield f"    static const char* const aotip_marks[][{len(marks)}] = {{"
    for number in range(loop.passes):
        row = ", ".join(_renumbered(one, number * loop.marks) for one in marks)
        yield f"        {{{row}}},"
    yield "    };"


def _renumbered(found: re.Match[str], more: int) -> str:
    return f'"{found["kernel"]}:{int(found["number"]) + more}{found["output"] or ""}"'


def _behind(line: str, loop: _Loop) -> str:
    """A line behind the loop, with its variables and the numbers of its marks."""
    if line.lstrip().startswith("//"):
        return line
    found, end = "", 0
    for mark in _MARK.finditer(line):
        found += _with_names(line[end : mark.start()], loop.renamed)
        found += _renumbered(mark, loop.more * loop.marks)
        end = mark.end()
    return found + _with_names(line[end:], loop.renamed)


def _with_names(text: str, renamed: Mapping[str, str]) -> str:
    return "".join(renamed.get(word, word) for word in _WORD.findall(text))


def _sites(sites: Sequence[KernelSite], loop: _Loop) -> Iterator[KernelSite]:
    """The places that call kernels, a pass of the loop after the other."""
    first, stop = loop.mark, loop.mark + loop.run.count * loop.marks
    yield from sites[:first]
    for number in range(loop.passes):
        for site in sites[first : first + loop.marks]:
            yield _site(site, number * loop.marks, number * loop.layers)
    for site in sites[stop:]:
        yield _site(site, loop.more * loop.marks, loop.more * loop.layers)


def _site(site: KernelSite, more: int, layers_on: int) -> KernelSite:
    kernel, _, number = site.name.rpartition(":")
    name = f"{kernel}:{int(number) + more}"
    outputs = tuple(replace(one, name=f"{name}.{one.buffer}") for one in site.outputs)
    return replace(site, name=name, outputs=outputs, layers_on=layers_on)
