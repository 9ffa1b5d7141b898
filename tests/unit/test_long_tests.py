"""``long_tests.txt`` lists tests that there are."""

from __future__ import annotations

import ast

from support import ROOT, long_tests


def test_each_is_there_once() -> None:
    listed = long_tests()
    assert listed == sorted(set(listed))
    functions: dict[str, set[str]] = {}
    for name in listed:
        path, _, test = name.partition("::")
        if path not in functions:
            tree = ast.parse((ROOT / "tests" / path).read_text())
            functions[path] = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
        assert not test or test.partition("[")[0] in functions[path], name
