"""Check what the MPS runtime says to Metal against Apple's metal-cpp.

Run as ``python native/tools/check_metal_names.py HEADERS``, where HEADERS is the folder
``metal_cpp`` of PyPI's mlx-metal wheel, or the wheel: ``pip download mlx-metal --no-deps
--only-binary=:all: --platform macosx_14_0_arm64`` gets one. It compares selectors with their
classes and numbers of arguments, classes, and enumerators with their values.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

MPS = Path(__file__).resolve().parents[1] / "src" / "mps"
# metal-cpp sends NSObject's `alloc` and `init` one by one, and makes strings with an encoding.
NOT_IN_HEADERS = {"new", "stringWithUTF8String:"}


@dataclass
class Headers:
    """What metal-cpp declares."""

    #: Owners of a selector, such as ``MTLDevice``, with the numbers of arguments it is sent with.
    selectors: dict[str, dict[str, set[int]]] = field(default_factory=lambda: defaultdict(dict))
    classes: set[str] = field(default_factory=set)
    values: dict[str, int] = field(default_factory=dict)


def split_arguments(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "(<[{") - (char in ")>]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def read_names(text: str, headers: Headers) -> dict[str, str]:
    """Add the classes; return the selectors by metal-cpp's names for them."""
    headers.classes |= set(re.findall(r"_PRIVATE_DEF_CLS\((\w+)\)", text))
    found = re.findall(r'_PRIVATE_DEF_SEL\(\s*(\w+),\s*"([\w:]+)"\)', text)
    return dict(found)


def read_methods(text: str, names: dict[str, str], headers: Headers) -> None:
    """Add who is sent which selector with how many arguments."""
    methods = re.finditer(
        r"\b(MTL|NS)::(\w+)(?:<[^>]*>)?::\w+\([^{;]*\{[^}]*?sendMessage(?:Safe)?<[^(]*>\("
        r"[^,]*,\s*_(?:MTL|NS)_PRIVATE_SEL\((\w+)\)([^;]*)\);",
        text,
    )
    for namespace, owner, name, arguments in (match.groups() for match in methods):
        owners = headers.selectors[names.get(name, name)]
        owners.setdefault(namespace + owner, set()).add(len(split_arguments(arguments)))


def read_values(text: str, headers: Headers) -> None:
    """Add the enumerators that have a number."""
    for name, value in re.findall(r"^\s+(\w+) = (\d+|0x[0-9a-fA-F]+),", text, re.MULTILINE):
        headers.values[name] = int(value, 0)


def read_headers(texts: list[str]) -> Headers:
    """Read metal-cpp's headers."""
    headers = Headers()
    names: dict[str, str] = {}
    for text in texts:
        names |= read_names(text, headers)
    for text in texts:
        read_methods(text, names, headers)
        read_values(text, headers)
    return headers


def load_texts(source: Path) -> list[str]:
    """Return the texts of metal-cpp's headers, from a folder or a wheel."""
    if source.is_dir():
        return [path.read_text() for path in sorted(source.rglob("*.hpp"))]
    with zipfile.ZipFile(source) as wheel:
        names = [name for name in sorted(wheel.namelist()) if name.endswith(".hpp")]
        return [wheel.read(name).decode() for name in names if "metal_cpp" in name]


def our_selectors() -> dict[str, tuple[str, str]]:
    """Return owner and text of our selectors by our names for them."""
    text = (MPS / "driver" / "selectors.inc").read_text()
    found = re.findall(r'^AOTIP_SELECTOR\((\w+), (\w+), "([\w:]+)"\)', text, re.MULTILINE)
    return {name: (owner, selector) for name, owner, selector in found}


def check_selectors(headers: Headers) -> list[str]:
    """Compare selectors, their owners and how many arguments they take."""
    problems = []
    for owner, selector in our_selectors().values():
        if selector in NOT_IN_HEADERS:
            continue
        owners = headers.selectors.get(selector, {})
        # metal-cpp has the methods of NSObject in classes of its own.
        known = owners.get(owner) or (owner == "NSObject" and {0, 1}) or set()
        if not owners or (selector.count(":") not in known):
            problems.append(f"{owner} has no method '{selector}', others: {sorted(owners)}")
    return problems


def our_messages() -> list[tuple[str, str, int, int]]:
    """Return file, our selector, and the numbers of types and of arguments of what we send."""
    found = []
    for path in sorted(MPS.rglob("*.[ch]*")):
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for match in re.finditer(r"\bsend<", text):
            types_end = closing(text, match.end() - 1)
            if text[types_end + 1] != "(":
                continue
            end = closing(text, types_end + 1)
            arguments = split_arguments(text[types_end + 2 : end])
            selector = re.fullmatch(r"(?:selectors\(\)|names)\.(\w+)", arguments[1])
            if selector is not None:
                types = split_arguments(text[match.end() : types_end])
                found.append((path.name, selector[1], len(types) - 1, len(arguments) - 2))
    return found


def closing(text: str, start: int) -> int:
    """Return the place of the bracket that closes the one at ``start``."""
    opening = text[start]
    other = {"<": ">", "(": ")"}[opening]
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opening) - (text[at] == other)
        if depth == 0:
            return at
    raise SystemExit(f"a bracket is not closed: {text[start : start + 60]!r}")


def check_messages() -> list[str]:
    """Compare what we send with the colons of the selectors; unused selectors are problems too."""
    ours, problems, used = our_selectors(), [], {"dispatchThreads", "dispatchGroups", "retain"}
    for file, name, types, arguments in our_messages():
        used.add(name)
        expected = ours[name][1].count(":") if name in ours else -1
        if (types, arguments) != (expected, expected):
            problems.append(
                f"{file}: '{name}' is sent with {types} types and {arguments} arguments,"
                f" expected {expected}"
            )
    text = "".join(path.read_text() for path in MPS.rglob("*.[ch]*"))
    unused = [name for name in ours if name not in used and f".{name}" not in text]
    return problems + [f"selectors.inc: '{name}' is not used" for name in unused]


def check_values(headers: Headers) -> list[str]:
    """Compare the numbers of metal_values.h."""
    problems = []
    text = (MPS / "driver" / "metal_values.h").read_text()
    for name, value in re.findall(r"constexpr \w+ k(\w+) = (\w+);", text):
        if headers.values.get(name) != int(value, 0):
            problems.append(f"{name} is {value} here and {headers.values.get(name)} in metal-cpp")
    return problems


def check_classes(headers: Headers) -> list[str]:
    """Compare the classes that we look up by name."""
    text = "".join(path.read_text() for path in sorted(MPS.rglob("*.cpp")))
    ours = set(re.findall(r'(?:make_object|get_class)\("(\w+)"\)', text))
    return [f"there is no class {name}" for name in sorted(ours - headers.classes)]


def main() -> int:
    """Print all problems; 1 when there are some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("headers", type=Path, help="metal-cpp's folder, or mlx-metal's wheel")
    headers = read_headers(load_texts(parser.parse_args().headers))
    if not headers.selectors:
        raise SystemExit("these are not metal-cpp's headers: no selector was found")
    checks = (check_selectors(headers), check_messages(), check_values(headers))
    problems = [*(p for check in checks for p in check), *check_classes(headers)]
    print("\n".join(problems) or f"{len(our_selectors())} selectors are as metal-cpp has them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
