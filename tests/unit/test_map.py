"""CONTRIBUTING's map and the folders agree."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

REPOSITORY = Path(__file__).parents[2]
MAPPED = ("aoti_plugins", "native/src")
_SOURCES = (".py", ".h", ".cpp", ".metal")
_LINE = re.compile(r"^( {4,})(\S+(?: \S+)*)(?: {2,}\S|$)")


def mapped() -> set[PurePosixPath]:
    """What the map names, by the folder that it is indented under."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    block = text.partition("## Where things are")[2].partition("\n## ")[0]
    found, above = set(), [(0, PurePosixPath())]
    for line in block.splitlines():
        match = _LINE.match(line)
        if match is None or len(match[1]) > 12:  # text that goes on
            continue
        depth = len(match[1])
        above = [one for one in above if one[0] < depth]
        paths = [above[-1][1] / name for name in match[2].split(" ")]
        found.update(paths)
        above.append((depth, paths[0]))
    return found


def test_what_the_map_names_is_there() -> None:
    assert sorted(str(path) for path in mapped() if not (REPOSITORY / path).exists()) == []


def test_every_folder_and_every_module_at_the_top_is_on_the_map() -> None:
    files = [file for one in MAPPED for file in (REPOSITORY / one).rglob("*")]
    paths = {PurePosixPath(f.relative_to(REPOSITORY)) for f in files if f.suffix in _SOURCES}
    modules = {path for path in paths if path.parent == PurePosixPath("aoti_plugins")}
    wanted = {path.parent for path in paths} | modules
    named = mapped() | {PurePosixPath("native/src"), PurePosixPath("aoti_plugins/__init__.py")}
    assert sorted(map(str, wanted - named)) == []
