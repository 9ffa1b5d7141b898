"""Two blobs of one name are an error that says which blobs, and which plugins named them."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner, get_manager, hookimpl
from aoti_plugins.errors import PluginConflictError
from aoti_plugins.lowering.blobs_named import BlobsNamed, current, one_program
from aoti_plugins.plugin_system.origin import Origin


class Names:
    """Names the blobs of some kinds, all alike."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    @hookimpl
    def aoti_blob_name(self, kind: str) -> str | None:
        return "acme" if kind in self.kinds else None


class Shifted(nn.Module):
    def __init__(self, shift: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(64.0) + shift)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp() + self.weight


@pytest.mark.parametrize(
    ("plugins", "blobs"),
    [
        (
            {"one": Names("weights")},
            ("weights of method 'decode'", "weights of method 'prefill'"),
        ),
        (
            {"one": Names("so"), "other": Names("weights")},
            ("code of method 'prefill'", "weights of method 'prefill'"),
        ),
    ],
    ids=["two methods", "two plugins"],
)
def test_two_blobs_of_one_name(plugins: dict[str, Names], blobs: tuple[str, str]) -> None:
    methods = {
        name: torch.export.export(Shifted(shift), (torch.ones(64),))
        for name, shift in (("prefill", 1.0), ("decode", 2.0))
    }
    with ExitStack() as stack:
        for name, plugin in plugins.items():
            stack.enter_context(get_manager().registered(plugin, name))
        with pytest.raises(PluginConflictError) as caught:
            to_edge_transform_and_lower(methods, partitioner=[CpuPartitioner()])
    message = str(caught.value)
    assert message.startswith("blob name 'acme' was given to two blobs that are not the same bytes")
    assert all(f"\n  - {blob}, partition 1 of 1 (cpu), " in message for blob in blobs), message
    assert all(
        f": plugin {name!r}, registered by the running program" in message for name in plugins
    )


def test_names_are_of_one_program() -> None:
    acme = Origin("acme", "acme", "1.0")
    for _ in range(2):
        with one_program():
            current().add("name", "1f" * 32, "code", acme)
            current().add("name", "1f" * 32, "code again", acme)
    current().add("name", "2e" * 32, "a partition alone", acme)


def test_an_installed_plugin_can_be_blocked() -> None:
    names, acme = BlobsNamed(), Origin("acme", "acme", "1.0")
    names.add("name", "1f" * 32, "one", acme)
    with pytest.raises(PluginConflictError, match="AOTI_PLUGINS_BLOCK=acme"):
        names.add("name", "2e" * 32, "two", acme)
