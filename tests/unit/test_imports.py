"""Which module may import which: arrows run from devices to the lowering, and never in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DEVICES = ("aoti_plugins.cpu", "aoti_plugins.cuda", "aoti_plugins.mps")
# Where Inductor's and Triton's insides may be touched (decision 0034).
INSIDES = (
    "aoti_plugins.lowering.inductor",
    "aoti_plugins.cpu.inductor",
    "aoti_plugins.cuda.inductor",
    "aoti_plugins.mps.inductor",
)
# What is written in Triton's language; the compiler's insides are not touched there.
IN_TRITON = ("triton", "triton.language", "triton.runtime.jit.JITFunction")
SETTINGS = "torch._inductor.config"


def _name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_name(path): path for path in sorted((REPOSITORY / "aoti_plugins").rglob("*.py"))}


def _is_in(name: str, *packages: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in packages)


def _imported(node: ast.AST) -> Iterator[str]:
    """Dotted names that a statement imports; of ``from a import b`` it is ``a.b``."""
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{one.name}" for one in node.names)


def _everywhere(source: str) -> set[str]:
    """What a module imports, at its top or later."""
    return {name for node in ast.walk(ast.parse(source)) for name in _imported(node)}


def _at_once(statements: list[ast.stmt]) -> Iterator[str]:
    """What is imported as soon as the module is."""
    for one in statements:
        yield from _imported(one)
        if isinstance(one, ast.If) and ast.unparse(one.test) != "TYPE_CHECKING":
            yield from _at_once([*one.body, *one.orelse])
        elif isinstance(one, ast.Try | ast.With):
            yield from _at_once(one.body)


def _module_of(name: str) -> str | None:
    """The module of ours that a dotted name is, or is in."""
    while name not in FILES and "." in name:
        name = name.rpartition(".")[0]
    return name if name in FILES else None


def _circle(arrows: dict[str, set[str]]) -> list[str]:
    """Modules that import each other; empty where there is no circle."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        for other in sorted(arrows[name]):
            if found := walk(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next(filter(None, (walk(name, []) for name in arrows)), [])


def _touches_insides(name: str, imported: str) -> bool:
    if _is_in(name, *INSIDES) or _is_in(imported, SETTINGS):
        return False
    if _is_in(imported, "triton"):
        return not (_is_in(name, "aoti_plugins.cuda") and imported in IN_TRITON)
    return _is_in(imported, "torch._inductor", "torch.utils._triton")


def test_the_lowering_imports_no_device() -> None:
    arrows = [
        f"{name} imports {one}"
        for name, path in FILES.items()
        if _is_in(name, "aoti_plugins.lowering")
        for one in sorted(_everywhere(path.read_text()))
        if _is_in(one, *DEVICES)
    ]
    assert arrows == []


def test_no_module_is_imported_while_it_imports() -> None:
    arrows = {}
    for name, path in FILES.items():
        imported = map(_module_of, _at_once(ast.parse(path.read_text()).body))
        arrows[name] = {one for one in imported if one is not None and one != name}
    assert _circle(arrows) == []


def test_insides_of_inductor_and_triton_are_touched_in_their_folders_only() -> None:
    elsewhere = [
        f"{name} imports {one}"
        for name, path in FILES.items()
        for one in sorted(_everywhere(path.read_text()))
        if _touches_insides(name, one)
    ]
    assert elsewhere == []


@pytest.mark.parametrize(
    ("name", "imported", "touches"),
    [
        ("aoti_plugins.cuda.lowering", "torch._inductor.utils.is_big_gpu", True),
        ("aoti_plugins.cuda.lowering", "torch._inductor.config", False),
        ("aoti_plugins.cuda.inductor.searches", "torch._inductor.utils.is_big_gpu", False),
        ("aoti_plugins.cuda.attention.kernels", "triton.language", False),
        ("aoti_plugins.cuda.attention.kernels", "triton.runtime.driver", True),
        ("aoti_plugins.mps.lowering", "triton", True),
    ],
)
def test_what_counts_as_insides(name: str, imported: str, touches: bool) -> None:
    assert _touches_insides(name, imported) is touches


def test_a_circle_is_found() -> None:
    assert _circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


def test_imports_are_found_where_they_are() -> None:
    source = "if TYPE_CHECKING:\n    import a\nimport b.c\ndef f():\n    from d import e\n"
    assert _everywhere(source) == {"a", "b.c", "d.e"}
    assert list(_at_once(ast.parse(source).body)) == ["b.c"]
