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
from aoti_plugins.lowering.inductor.repeated_statements import (
    MARK,
    WORD,
    Body,
    LayerConstant,
    Loop,
    NoLoopError,
    first_loop,
    known_constants,
)
from aoti_plugins.lowering.layers.short_program import ShortProgram

# Which layer a pass is of; constants are called as in the model.
_COUNT = "aotip_layer"

_WRAPPER = re.compile(
    r"(?P<before>.*\nvoid AOTInductorModel::run_impl\(\n.*?)"
    r"(?P<aliases>(?:    \[\[maybe_unused\]\] auto& \w+ = \(\*constants_\)\[\d+\];\n)+)"
    r"(?P<body>.*?)"
    r"(?P<after>\n\} // AOTInductorModel::run_impl\n.*)",
    re.DOTALL,
)
_DESCRIPTION = re.compile(
    r"(?P<more>(?:    constants_info_\[\d+\]\.[^\n]*;\n)*)"
    r"    ::aotip::describe_constant\(constants_info_\[\d+\], "
    r'"(?P<name>\w+)", "(?P<fqn>[^"\\]*)", (?P<rest>[^\n]*)\);\n'
)
_NUM_CONSTANTS = re.compile(r"(: AOTInductorModelBase\(\d+,\s*\d+,\s*)\d+(?=,)")


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
    known = known_constants(code.constants, short)
    body = Body(wrapper["body"])
    loop = first_loop(body, known, short)
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

    def number(self, one: LayerConstant, layers_on: int = 0) -> int:
        """The place of a layer's constant, or of one some layers behind it."""
        return self.first[one.chain] + one.place + layers_on


def _table(
    constants: Sequence[GeneratedConstant], known: Mapping[str, LayerConstant], short: ShortProgram
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
    known: Mapping[str, LayerConstant],
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
        names_of, number = f"aotip_names_{chain}", f"{table.first[chain]} + {_COUNT}"
        name = f"{names_of}[{_COUNT}][0], {names_of}[{_COUNT}][1]"
        lines += [
            f"    static const char* const {names_of}[][2] = {{{listed}}};\n",
            f"    for (size_t {_COUNT} = 0; {_COUNT} < {len(layers)}; ++{_COUNT}) {{\n",
            _described(described[layers[0].name], number, name),
            "    }\n",
        ]
    return text.replace(whole, "".join(lines))


def _described(found: re.Match[str], number: str, names: str) -> str:
    """Statements about one constant, as about one with another place and name."""
    info = f"constants_info_[{number}]"
    more = re.sub(r"constants_info_\[\d+\]", info, found["more"])
    return f"{more}    ::aotip::describe_constant({info}, {names}, {found['rest']});\n"


def _aliases(constants: Sequence[GeneratedConstant], loop: Loop, table: _Table) -> Iterator[str]:
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


def _with_loop(body: Body, loop: Loop, table: _Table) -> str:
    run = loop.run
    start, second = body.code[run.start], body.code[run.start + run.period]
    stop = body.code[run.end] if run.end < len(body.code) else len(body.lines)
    marks: list[re.Match[str]] = []

    def marked(found: re.Match[str]) -> str:
        marks.append(found)
        return f"aotip_marks[{_COUNT}][{len(marks) - 1}]"

    step = f"{loop.layers} * {_COUNT}" if loop.layers > 1 else _COUNT
    lines = [
        *(
            f"    auto& {name} = (*constants_)[{table.number(one)} + {step}];"
            for name, one in loop.inside.items()
        ),
        *(MARK.sub(marked, line) for line in body.lines[start:second]),
        *(f"    {name} = std::move({other});" for name, other in loop.carried.items()),
    ]
    return "\n".join(
        [
            *body.lines[:start],
            *_table_of_marks(marks, loop),
            f"    for (size_t {_COUNT} = 0; {_COUNT} < {loop.passes}; ++{_COUNT}) {{",
            *(f"    {line}" if line else line for line in lines),
            "    }",
            *(_behind(line, loop) for line in body.lines[stop:]),
        ]
    )


def _table_of_marks(marks: Sequence[re.Match[str]], loop: Loop) -> Iterator[str]:
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


def _behind(line: str, loop: Loop) -> str:
    """A line behind the loop, with its variables and the numbers of its marks."""
    if line.lstrip().startswith("//"):
        return line
    found, end = "", 0
    for mark in MARK.finditer(line):
        found += _with_names(line[end : mark.start()], loop.renamed)
        found += _renumbered(mark, loop.more * loop.marks)
        end = mark.end()
    return found + _with_names(line[end:], loop.renamed)


def _with_names(text: str, renamed: Mapping[str, str]) -> str:
    return "".join(renamed.get(word, word) for word in WORD.findall(text))


def _sites(sites: Sequence[KernelSite], loop: Loop) -> Iterator[KernelSite]:
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
