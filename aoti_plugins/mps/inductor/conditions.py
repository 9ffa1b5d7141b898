"""Decide the preprocessor conditions of Metal source whose answer is known."""

from __future__ import annotations

from aoti_plugins.mps.inductor.declarations import Declaration

# What is compiled is Metal, and PyTorch's headers are not used without the rest of PyTorch.
_TRUE = frozenset(
    ("#if !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)", "#ifdef __METAL__")
)


def without_known_conditions(found: list[Declaration]) -> list[Declaration]:
    """Leave out conditions that hold, with what they exclude, and second includes of a header."""
    kept: list[Declaration] = []
    known: list[bool] = []  # of the conditions that are open
    skipped = 0  # how many of them exclude what is read
    for one in found:
        first = one.text.split(maxsplit=1)[0] if one.text.startswith("#") else ""
        if first in ("#if", "#ifdef", "#ifndef"):
            known.append(one.text in _TRUE and not skipped)
            stays = not known[-1]
        elif first in ("#else", "#elif", "#endif") and known:
            stays = not known[-1]
            if known[-1] and first != "#endif":
                skipped = 1
            elif known[-1]:
                skipped = 0
            if first == "#endif":
                known.pop()
        else:
            stays = first != "#include" or one.text not in {before.text for before in kept}
        if stays and not skipped:
            kept.append(one)
    return without_empty_conditions(kept)


def without_empty_conditions(found: list[Declaration]) -> list[Declaration]:
    """Leave out conditions with nothing in any branch, and namespaces with nothing inside."""
    kept: list[Declaration] = []
    for one in found:
        kept.append(one)
        if one.text == "#endif":
            start = _start_of_empty(kept)
            del kept[start:]
        elif one.text == "}" and len(kept) > 1 and _opens_namespace(kept[-2]):
            del kept[-2:]
    return kept


def _start_of_empty(kept: list[Declaration]) -> int:
    """Where the condition that ends here begins if there is nothing in it; else the length."""
    for index in range(len(kept) - 2, -1, -1):
        first = kept[index].text.split(maxsplit=1)[0]
        if first in ("#if", "#ifdef", "#ifndef"):
            return index
        if first not in ("#else", "#elif"):
            break
    return len(kept)


def _opens_namespace(one: Declaration) -> bool:
    return one.text.startswith("namespace") and one.text.endswith("{")
