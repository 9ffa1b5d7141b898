"""What a plugin or the installation does wrong ends a lowering and names it.

It never reads as an op that is not supported: only what Inductor says of the op may mean that.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import LoweringError, PluginError
from aoti_plugins.hooks import hookimpl
from aoti_plugins.lowering.inductor import generate as generating
from aoti_plugins.lowering.inductor.options import check_options
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.types import GraphPass, Target


class Sums(torch.nn.Module):
    """An op that Inductor is asked about."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x, 1)


def _lower(**options: Any) -> None:
    exported = torch.export.export(Sums(), (torch.ones(2, 3),))
    to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner(**options)])


@contextlib.contextmanager
def _plugin(**hooks: Any) -> Iterator[None]:
    """A plugin ``acme`` whose hooks give these values for the CPU and nothing for others."""

    def hook(name: str, value: Any) -> Any:
        def answer(device: str) -> Any:
            return value if device == "cpu" else type(value)()

        answer.__name__ = name
        return hookimpl(answer)

    plugin = mock.NonCallableMock(spec=list(hooks), **{n: hook(n, v) for n, v in hooks.items()})
    with get_manager().registered(plugin, "acme"):
        yield


def test_unknown_option() -> None:
    with (
        _plugin(aoti_inductor_options={"max_autotun": True}),
        pytest.raises(PluginError, match=r"'acme'.*no option 'max_autotun'.*max_autotune"),
    ):
        _lower()


@pytest.mark.parametrize(
    ("option", "value"), [("cpp.threads", "four"), ("max_autotune", "yes"), ("cpp.threads", None)]
)
def test_option_of_another_type(option: str, value: object) -> None:
    with (
        _plugin(aoti_inductor_options={option: value}),
        pytest.raises(PluginError, match=rf"'acme'.*{option!r} is of type (int|bool), found"),
    ):
        _lower()


def test_numbers_may_be_of_either_kind() -> None:
    check_options({"padding_stride_threshold": float("inf"), "cpp.threads": 4})


def test_function_that_is_an_option() -> None:
    def broken(graph: object) -> None:
        raise ValueError("no such node")

    with (
        _plugin(aoti_inductor_options={"_pre_fusion_custom_pass": broken}),
        pytest.raises(
            PluginError, match=r"'_pre_fusion_custom_pass', which plugin 'acme' sets, failed.*no su"
        ),
    ):
        _lower()


def test_decomposition_that_raises() -> None:
    def broken(*args: object) -> None:
        raise KeyError("axis")

    ops = torch.ops.aten
    table = {ops.logsumexp.default: broken, ops.amax.default: broken}
    with (
        _plugin(aoti_decompositions=table),
        pytest.raises(PluginError, match=r"decomposition of .*of plugin 'acme' failed.*axis"),
    ):
        _lower()


def test_pass_that_raises_when_asked() -> None:
    def broken(node: object) -> bool:
        raise AttributeError("target")

    one = GraphPass("acme.one", lambda program: None, handles=broken)
    with (
        _plugin(aoti_graph_passes=[one]),
        pytest.raises(PluginError, match=r"'acme.one', asked what it handles, of plugin 'acme'"),
    ):
        _lower()


@pytest.mark.parametrize(
    ("properties", "what"),
    [
        ({}, r"properties\['vector_isa'\].*one of avx512"),
        ({"vector_isa": "avx1024", "cxx_flags": ()}, "found 'avx1024'"),
        ({"vector_isa": "avx2"}, r"properties\['cxx_flags'\]"),
    ],
)
def test_target_that_lacks_properties(properties: dict[str, Any], what: str) -> None:
    board = Target("board", "cpu", "x86_64", properties=properties)
    with (
        _plugin(aoti_targets=[board]),
        pytest.raises(PluginError, match=rf"plugin 'acme' failed.*{what}"),
    ):
        _lower(target="board")


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), ImportError("no module numpy")]
)
def test_what_the_machine_lacks(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(torch._inductor, "aot_compile", fails)
    with pytest.raises(LoweringError, match=r"(?i)cannot ask Inductor about .*: .*no ") as caught:
        _lower()
    assert caught.value.__cause__ is error


def test_patch_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> contextlib.AbstractContextManager[None]:
        return mock.patch.object(torch._inductor, "no_longer_there", None)

    monkeypatch.setattr(generating, "size_checks", gone)
    with pytest.raises(LoweringError, match=r"cannot ask Inductor.*'no_longer_there'"):
        _lower()
