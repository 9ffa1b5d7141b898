"""The hook specs: their examples run, and docs/hooks.md says what hooks.py says."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from pathlib import Path

import pluggy
import pytest

import aoti_plugins
from aoti_plugins import blob_names, hooks, types
from aoti_plugins.plugin_system.discovery import SPEC_ARGUMENTS

DOCS = Path(__file__).parents[2] / "docs" / "hooks.md"
SECTIONS = ("Args:", "Returns:", "Raises:", "Example:")
KINDS = {
    "aoti_preprocess": "firstresult",
    "aoti_fallback_kernels": "collects",
    "aoti_blob_name": "firstresult",
    "aoti_graph_passes": "collects",
    "aoti_decompositions": "collects",
    "aoti_inductor_options": "collects",
    "aoti_targets": "collects",
    "aoti_progress": "observer",
}


def signatures(code: str) -> dict[str, tuple[str, str]]:
    """Map each function of ``code`` to its arguments and its return annotation, normalized."""
    functions = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    return {f.name: (ast.unparse(f.args), ast.unparse(f.returns or f)) for f in functions}


def documented() -> dict[str, str]:
    """Map each hook that docs/hooks.md has a section for to the text of the section."""
    parts = re.split(r"^## `(aoti_\w+)`$", DOCS.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.split("\n## ")[0] for part in parts[2::2]), strict=True))


def test_the_hooks_are_those_of_the_design() -> None:
    assert list(SPEC_ARGUMENTS) == list(KINDS)


def test_hooks_module_holds_nothing_else() -> None:
    own = {name for name, value in vars(hooks).items() if inspect.isfunction(value)}
    assert own == set(KINDS)
    assert isinstance(hooks.hookimpl, pluggy.HookimplMarker)


@pytest.mark.parametrize("name", KINDS)
def test_kind(name: str) -> None:
    options = pluggy.PluginManager("aoti_plugins").parse_hookspec_opts(hooks, name)
    assert options is not None
    assert bool(options["firstresult"]) == (KINDS[name] == "firstresult")


@pytest.mark.parametrize("name", KINDS)
def test_docstring_is_complete_and_its_example_runs(name: str) -> None:
    docstring = inspect.getdoc(getattr(hooks, name)) or ""
    positions = [docstring.index(f"\n{section}\n") for section in SECTIONS]
    assert positions == sorted(positions)
    assert "Called " in docstring
    for argument in SPEC_ARGUMENTS[name]:
        assert f"\n    {argument}: " in docstring

    example = doctest.DocTestParser().get_doctest(docstring, {}, name, None, None)
    assert f"def {name}(self" in example.docstring
    assert any("manager.register(" in step.source for step in example.examples)
    assert any(step.want for step in example.examples), "the example shows no result"
    failures = doctest.DocTestRunner().run(example).failed
    assert failures == 0


def test_example_of_readable_names_runs() -> None:
    assert doctest.testmod(blob_names).failed == 0
    assert doctest.testmod(blob_names).attempted > 0


def test_docs_name_every_hook() -> None:
    assert list(documented()) == list(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_docs_have_the_exact_signature(name: str) -> None:
    (block,) = re.findall(r"```python\n(def .*?)\n```", documented()[name], flags=re.DOTALL)
    expected = signatures(inspect.getsource(hooks))
    assert signatures(block.rstrip() + ": ...") == {name: expected[name]}


@pytest.mark.parametrize("name", KINDS)
def test_docs_say_the_kind_and_when_it_is_called(name: str) -> None:
    row = re.search(rf"^\| \[`{name}`\]\(#{name}\) \| (\w+) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    assert row[1] == KINDS[name]
    assert "Called " in documented()[name]


def fields_of_types() -> dict[str, dict[str, str]]:
    """Map each public class of types.py to its fields, with the types that one may give."""
    classes = ast.parse(inspect.getsource(types)).body
    return {one.name: _fields(one) for one in classes if isinstance(one, ast.ClassDef)}


def _fields(definition: ast.ClassDef) -> dict[str, str]:
    functions = {one.name: one for one in ast.walk(definition) if isinstance(one, ast.FunctionDef)}
    constructor = functions.get("__init__") or functions.get("__new__")
    if constructor is not None:  # it takes other types than it keeps
        arguments = constructor.args.args[1:]
        return {one.arg: ast.unparse(one.annotation or one) for one in arguments}
    fields = [one for one in definition.body if isinstance(one, ast.AnnAssign)]
    return {ast.unparse(one.target): ast.unparse(one.annotation) for one in fields}


def documented_types() -> dict[str, str]:
    """Map each class that docs/hooks.md has a section for to the text of the section."""
    section = DOCS.read_text().split("\n## Types\n")[1].split("\n## ")[0]
    parts = re.split(r"^### `(\w+)`$", section, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_docs_have_every_type() -> None:
    assert set(documented_types()) == set(fields_of_types())


@pytest.mark.parametrize("name", fields_of_types())
def test_docs_have_every_field_with_its_type(name: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| \S.* \|$", documented_types()[name], re.MULTILINE)
    table = [(field, kind.replace(r"\|", "|")) for field, kind in rows]
    assert table == list(fields_of_types()[name].items())


@pytest.mark.parametrize("name", fields_of_types())
def test_docs_have_an_example_of_every_type(name: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", documented_types()[name], re.DOTALL)
    assert f"{name}(" in example
    exec(example, {"Path": Path} | {one: getattr(aoti_plugins, one) for one in fields_of_types()})


@pytest.mark.parametrize("name", ["FallbackKernel", "SharedLibrary", "LinkedObjects"])
def test_type_checkers_see_the_arguments_that_there_are(name: str) -> None:
    declared = list(fields_of_types()[name])
    assert declared == list(inspect.signature(getattr(types, name)).parameters)
