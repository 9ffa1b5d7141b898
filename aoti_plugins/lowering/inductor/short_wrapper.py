"""Say the same in a wrapper in fewer words, which a C++ compiler reads sooner.

Inductor writes eleven statements for each constant, and lists of numbers for each result whose
layout may be checked. Here they become calls of ``aoti_plugins/blob_tables.h``. What looks
different, as of another version of PyTorch's, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_CONSTANT = re.compile(r"^ *constants_info_\[(\d+)\]\..*\n(?: *constants_info_\[\1\]\..*\n)*", re.M)
_FIELD = re.compile(r"constants_info_\[\d+\]\.(\w+) = (.*);")
_TEXT = r"\"[^\"\\]*\""
_CHECK = re.compile(
    r"\bassert_size_stride\((\w+), \{([-\dL, ]*)\}, \{([-\dL, ]*)\}"
    rf"(?:, ({_TEXT})(, \w+, {_TEXT})?)?\);"
)
_TABLE = re.compile(r"\bconstants_->at\((\d+)\)")
_DESCRIBED = ("dtype", "offset", "data_size", "from_folded", "type", "layout")
_NO_NAME = '"a tensor"'
_NAMED = ("name", "original_fqn", "shape", "stride")


def shortened(wrapper: str) -> str:
    """A wrapper that does the same in fewer words."""
    wrapper = _CONSTANT.sub(_described, wrapper)
    wrapper = _CHECK.sub(_checked, wrapper)
    # The table has a place for each constant, or there is none at all.
    return _TABLE.sub(r"(*constants_)[\1]", wrapper)


def _described(found: re.Match[str]) -> str:
    """A call in the place of statements about one constant; those that it does not know stay."""
    fields: Mapping[str, str] = dict(_FIELD.findall(found[0]))
    is_known = {*_NAMED, *_DESCRIBED} <= fields.keys()
    if not is_known or len(fields) != found[0].count("\n"):
        return found[0]
    info = f"constants_info_[{found[1]}]"
    rest = "".join(
        f"    {info}.{name} = {value};\n"
        for name, value in fields.items()
        if name not in (*_NAMED, *_DESCRIBED)
    )
    layout = _layout(fields["shape"].strip("{}"), fields["stride"].strip("{}"))
    others = ", ".join(fields[name] for name in _DESCRIBED)
    call = f"::aotip::describe_constant({info}, {fields['name']}, {fields['original_fqn']}"
    return f"{rest}    {call}, {layout}, {others});\n"


def _checked(found: re.Match[str]) -> str:
    layout, op = _layout(found[2], found[3]), found[4] or _NO_NAME
    if found[5]:  # with its dtype, as PyTorch 2.15 writes it
        return f"::aotip::check_typed_layout({found[1]}, {layout}, {op}{found[5]});"
    return f"::aotip::check_layout({found[1]}, {layout}, {op});"


def _layout(*lists: str) -> str:
    """A C++ string of lists of numbers, for the runtime's ``read_numbers``."""
    parts = ("".join(f"{number}," for number in re.findall(r"-?\d+", one)) for one in lists)
    return f'"{";".join(parts)}"'
