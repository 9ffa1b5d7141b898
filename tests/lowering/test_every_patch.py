"""Every listed patch changes something inside its block, and all is back behind it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from support import ROOT
from torch import nn
from torch._inductor import graph

from aoti_plugins.cli import doctor
from aoti_plugins.cli._patches import all_patches, patch_states
from aoti_plugins.cuda.lowering import gpu_properties
from aoti_plugins.cuda.target import target_by_name
from aoti_plugins.cuda.tuning.records import Records
from aoti_plugins.errors import PatchError
from aoti_plugins.lowering.inductor.gpu.placement import Placement
from aoti_plugins.lowering.inductor.patching import Patch, found

AnyPatch = Patch[Any, Any]
GPU = target_by_name("h100")
REPLACES = re.compile(r"mock\.patch|\breplaced\(")
# Changes one object of the program that is lowered, and nothing that others see.
OF_ONE_OBJECT = "aoti_plugins.lowering.size_ranges"


def _placement() -> Placement:
    module = torch.fx.symbolic_trace(nn.Linear(2, 2))
    return Placement(module, [torch.randn(1, 2)], torch.device("cuda:0"))


# What patches ask for, by the parameter's name.
ARGUMENTS: dict[str, Callable[[], Any]] = {
    "applies": lambda: lambda: True,
    "begin": lambda: lambda tuner: None,
    "cores": lambda: 10,
    "gpu": lambda: gpu_properties(GPU),
    "layer_of": lambda: lambda node: None,
    "name": lambda: "scalar",
    "ops": tuple,
    "placement": _placement,
    "read_binary": lambda: lambda *_: (32, 0),
    "records": Records,
    "target": lambda: GPU,
    "why": lambda: "for a test",
}


PATCHES = all_patches()
EACH = pytest.mark.parametrize("patch", PATCHES, ids=lambda one: one.name.rpartition(".")[2])


def _opened(patch: AnyPatch) -> AbstractContextManager[Any]:
    asked = inspect.signature(patch.set_up).parameters.values()
    given = {one.name: ARGUMENTS[one.name]() for one in asked if one.default is one.empty}
    return patch(**given)


def _seen(target: str) -> Any:
    value = found(target)
    if isinstance(value, Mapping):
        return id(value), dict(value)
    if isinstance(value, list):
        return id(value)
    if callable(value) or isinstance(value, ModuleType) or not hasattr(value, "__dict__"):
        return value
    return dict(vars(value))


def _state(patch: AnyPatch) -> dict[str, Any]:
    return {target: _seen(target) for target in patch.targets}


@EACH
@pytest.mark.parametrize("fails", [False, True])
def test_it_changes_something_and_puts_it_back(patch: AnyPatch, fails: bool) -> None:
    with _opened(patch):  # imports what it needs, and fills caches
        pass
    before = _state(patch)
    try:
        with _opened(patch):
            inside = _state(patch)
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert (inside != before) is (patch.is_needed and patch.targets != ())
    assert _state(patch) == before


@EACH
def test_two_threads_wait_for_each_other(patch: AnyPatch) -> None:
    before = _state(patch)
    entering = threading.Event()

    def other() -> dict[str, Any]:
        entering.set()
        with _opened(patch):
            return _state(patch)

    with ThreadPoolExecutor(1) as pool:
        with _opened(patch):
            later = pool.submit(other)
            entering.wait()
            with pytest.raises(TimeoutError):
                later.result(0.05)
        later.result(30)
    assert _state(patch) == before


@EACH
def test_a_target_that_is_gone_is_named(patch: AnyPatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.11.99")
    before = _state(patch)
    target = "torch._inductor.no_such_module.function"
    gone = dataclasses.replace(patch, targets=(*patch.targets, target))
    with pytest.raises(PatchError) as caught, _opened(gone):
        pass
    for part in (patch.name, "PyTorch 2.11.99", "'torch._inductor.no_such_module'"):
        assert part in str(caught.value)
    assert _state(patch) == before


def test_every_patch_says_why_and_until_when() -> None:
    assert [one.name for one in PATCHES if not (one.why.endswith(".") and one.until)] == []
    # It changes nothing, but makes functions forget.
    without = {one.set_up.__name__ for one in PATCHES if not one.targets}
    assert without == {"fresh_answers"}


def test_doctor_says_of_each_whether_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    needless = {one.name for one in PATCHES if not one.is_needed}
    assert {one.name for one, state in patch_states() if state == "not needed"} == needless
    assert {state for one, state in patch_states() if one.name not in needless} == {"fits"}
    monkeypatch.delattr(graph, "fallback_handler")
    (misfit,) = (found for found in patch_states() if found[1] not in ("fits", "not needed"))
    assert misfit[0].name.endswith(".row_major_transforms")
    assert misfit[1] == "there is no 'torch._inductor.graph.fallback_handler'"


def test_every_patch_is_listed() -> None:
    """Things are replaced where patches are, and no block that does it is made past the list."""
    places = {one.set_up.__module__ for one in PATCHES} | {OF_ONE_OBJECT, Patch.__module__}
    used = []
    for path in (ROOT / "aoti_plugins").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
        uses = [one for one in functions if REPLACES.search(ast.unparse(one))]
        blocks = [one for one in uses if "contextmanager" in map(_last, one.decorator_list)]
        if (uses and module not in places) or (blocks and module != OF_ONE_OBJECT):
            used.append(module)
    assert used == []


def _last(decorator: ast.expr) -> str:
    return ast.unparse(decorator).rpartition(".")[2]


def test_doctor_lists_them() -> None:
    listed = CliRunner().invoke(doctor.command, ["--patches"])
    assert listed.exit_code == 0, listed.output
    assert f"{len(PATCHES)} patches: " in listed.output
    assert "0 do not fit." in listed.output
    as_json = CliRunner().invoke(doctor.command, ["--patches", "--json"])
    assert [one["name"] for one in json.loads(as_json.output)["patches"]] == [
        one.name for one in PATCHES
    ]
