"""What all patches of a GPU lowering change together is back afterwards; what single ones do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import torch
from torch._inductor.lowering import lowerings

import aoti_plugins.cuda.inductor.few_rows  # noqa: F401  (what it patches is watched, too)
from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda import lowering
from aoti_plugins.cuda.inductor import (
    convolution,
    triton_version,
)
from aoti_plugins.cuda.target import as_target, target_by_name
from aoti_plugins.mps import lowering as mps_lowering
from aoti_plugins.mps import target as mps_target

GPU = target_by_name("h100")
TARGET = as_target(GPU)
WATCHED = ("torch._inductor", "torch.cuda", "torch._dynamo.device_interface", "triton")
FAKE = ("torch._subclasses.fake_tensor", "torch._C", "torch.utils._triton", "torch.backends.mps")
_KNOBS = ("compilation", "language", "runtime")
PRINTERS = "torch.utils._sympy.printers"

_Context = Callable[[], AbstractContextManager[Any]]


WHOLE: dict[str, _Context] = {
    "all": lambda: lowering.environment(TARGET, LoweringOptions()),
    "all of a probe": lambda: lowering.probe_environment(TARGET, LoweringOptions()),
    "all of mps": lambda: mps_lowering.environment(mps_target.TARGETS[0], LoweringOptions()),
}


def _watched() -> Iterator[tuple[str, ModuleType | type]]:
    yield "torch.Tensor", torch.Tensor
    for name, module in list(sys.modules.items()):
        if name in (*FAKE, PRINTERS, "triton") or name.startswith(tuple(f"{w}" for w in WATCHED)):
            yield name, module
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{key}", value


def _state() -> dict[str, Any]:
    """Functions, classes and caches of PyTorch and Triton, and settings, by name."""
    # These import what is walked over afterwards.
    found: dict[str, Any] = {
        "settings": torch._inductor.config.save_config_portable(),
        "triton knobs": _knobs(),
        "driver": _driver(),
        "assembler files": _assembler_files(),
        "search": lowerings[torch.ops.aten.searchsorted.Tensor],
    }
    for name, owner in _watched():
        for key, value in list(vars(owner).items()):
            is_called = callable(value) or isinstance(value, staticmethod | classmethod | property)
            if is_called or key == "sys":
                found[f"{name}.{key}"] = value
            elif isinstance(owner, type) and isinstance(value, list | dict):
                found[f"{name}.{key}"] = _Same(value)
    return found


class _Same:
    """A cache of a class; equal only to itself, whatever is in it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def _knobs() -> dict[str, Any]:
    from triton import knobs

    return {f"{group}": dict(vars(getattr(knobs, group))) for group in _KNOBS}


def _driver() -> Any:
    from triton.runtime import driver

    return driver.__dict__.get("_active")


def _assembler_files() -> Any:
    from triton.backends.nvidia import compiler

    return compiler.tempfile


def _differences(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {
        key
        for key, value in one.items()
        if other.get(key) is not value
        and (callable(value) or isinstance(value, property) or other.get(key) != value)
    }


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_patch_and_way_back(name: str, fails: bool) -> None:
    with WHOLE[name]():  # imports what it needs, and fills caches
        pass
    before = _state()
    try:
        with WHOLE[name]():
            inside = _state()
            if fails:
                raise KeyError
    except KeyError:
        pass
    after = _state()
    changed = _differences(inside, before) | _differences(before, inside)
    assert changed, "the patch changes nothing that is watched"
    assert _differences(before, after) == set()
    assert changed & after.keys() == changed & before.keys()


def test_triton_version_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime import cache

    expected = cache.triton_key()
    monkeypatch.setenv("AOTI_PLUGINS_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        triton_version._begun.cache_clear()
        with triton_version.known_triton_version():
            assert cache.triton_key() == expected
        monkeypatch.setattr(cache, "triton_key", lambda: pytest.fail("computed again"))
    (kept,) = (tmp_path / "triton").iterdir()
    assert kept.read_bytes().endswith(expected.encode())
    triton_version._begun.cache_clear()


def test_triton_version_is_found_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime import cache

    found = threading.Event()

    def digest() -> str:
        found.set()
        raise OSError("a full disk")

    monkeypatch.setattr(triton_version, "cached_text", lambda kind, key, make: make())
    monkeypatch.setattr(cache, "triton_key", digest)
    for _ in range(2):  # what fails is tried again
        found.clear()
        with triton_version.known_triton_version():
            assert found.wait(60)
            with pytest.raises(OSError, match="a full disk"):
                cache.triton_key()


class _Input:
    """What is asked of an input of an operation."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def get_dtype(self) -> torch.dtype:
        return self._dtype


def _chosen(self: object, name: str, choices: list[Any], input_nodes: Any, layout: Any) -> Any:
    del self, name, input_nodes, layout
    return choices


def _weighed(name: str, dtype: torch.dtype, libraries: int = 1) -> tuple[int, int]:
    """Templates and libraries that are left of two templates and some libraries."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache, TritonTemplateCaller

    templates = [object.__new__(TritonTemplateCaller) for _ in range(2)]
    choices = [*templates, *(object() for _ in range(libraries))]
    with (
        mock.patch.object(AlgorithmSelectorCache, "__call__", _chosen),
        convolution.convolution_choices(),
    ):
        left = AlgorithmSelectorCache.__call__(None, name, choices, [_Input(dtype)], None)
    return sum(one in templates for one in left), sum(one not in templates for one in left)


def test_templates_without_tensor_cores_are_not_weighed_where_the_library_uses_them() -> None:
    assert _weighed("convolution", torch.float32) == (0, 1)
    assert _weighed("convolution", torch.float32, libraries=0) == (2, 0)
    assert _weighed("convolution", torch.bfloat16) == (2, 1)
    assert _weighed("mm", torch.float32) == (2, 1)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert _weighed("convolution", torch.float32) == (2, 1)
