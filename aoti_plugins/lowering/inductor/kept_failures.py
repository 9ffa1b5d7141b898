"""Let failures in generated parallel loops come back instead of ending the process.

Generated code throws where a check fails: an index out of range, an assertion, a division by zero.
An exception may not leave an OpenMP construct; the compiler ends the process there, on whatever
thread it is. So the body of each construct catches, the first failure is kept beside the region,
and the thread that started the region throws it again behind it (``aoti_plugins/blob_failures.h``).
No iteration that fails goes on, and nothing that comes after the region runs.

It is done on the text of the kernels, in which braces stand on lines of their own, because that has
not changed in years, while the classes that write it do. Where a construct looks otherwise, this is
an error. Tested with torch 2.13.
"""

from __future__ import annotations

import re
from collections import defaultdict

from aoti_plugins.errors import LoweringError

_PRAGMA = re.compile(r"\s*#\s*pragma omp (?P<what>parallel for|parallel|for|single)\b(?P<rest>.*)")
_COLLAPSE = re.compile(r"collapse\((\d+)\)")


def with_kept_failures(kernels: str) -> str:
    """Make every parallel region of generated kernels keep its first failure and throw it after.

    Raises:
        LoweringError: a construct is not followed by the braces that Inductor writes.
    """
    lines = kernels.split("\n")
    before: dict[int, list[str]] = defaultdict(list)  # what to put before a line, by its number
    for start, line in enumerate(lines):
        pragma = _PRAGMA.match(line)
        if pragma is None:
            continue
        what = pragma["what"]
        if what.startswith("parallel"):
            end = _block(lines, start, _depth(pragma) if what == "parallel for" else 0)[1]
            before[start].append("{ AOTIP_KEEP_FAILURES")
            before[end + 1].append("AOTIP_THROW_FAILURES }")
        if what != "parallel":
            begin, end = _block(lines, start, 0 if what == "single" else _depth(pragma))
            before[begin + 1].append("AOTIP_TRY")
            before[end].append("AOTIP_KEEP")
    return "\n".join(one for at, line in enumerate(lines) for one in (*before.get(at, ()), line))


def _depth(pragma: re.Match[str]) -> int:
    """How many loops, one in the other, are shared among the threads."""
    found = _COLLAPSE.search(pragma["rest"])
    return int(found[1]) if found else 1


def _block(lines: list[str], pragma: int, loops: int) -> tuple[int, int]:
    """Line numbers of the braces of a construct's body, inside of so many loops."""
    at = pragma
    for _ in range(loops):
        at = _next(lines, at, "for(")
    begin = _next(lines, at, "{")
    closing = lines[begin].replace("{", "}")
    for end in range(begin + 1, len(lines)):
        if lines[end].rstrip() == closing.rstrip():
            return begin, end
    raise _unknown(lines[pragma])


def _next(lines: list[str], after: int, text: str) -> int:
    """The line that begins with the text, with nothing but braces and pragmas in between."""
    for number in range(after + 1, len(lines)):
        stripped = lines[number].strip().replace("for (", "for(")
        if stripped == text or (text != "{" and stripped.startswith(text)):
            return number
        if stripped not in ("", "{") and not stripped.startswith("#"):
            break
    raise _unknown(lines[after])


def _unknown(line: str) -> LoweringError:
    return LoweringError(
        f"Inductor wrote what belongs to the parallel construct {line.strip()!r} in a way that is "
        "not known, so that a failure in it would end the process. Use a PyTorch that was tested."
    )
