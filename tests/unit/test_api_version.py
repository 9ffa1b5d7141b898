"""Plugins state the version of the hooks that they were written for."""

from __future__ import annotations

import types
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest

from aoti_plugins.errors import PluginError
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system import api_version
from aoti_plugins.plugin_system.discovery import load_plugin
from aoti_plugins.plugin_system.manager import PluginManager
from aoti_plugins.plugin_system.origin import Origin

INSTALLED = Origin("acme", "acme-kernels", "2.1")
OURS = f"aoti-plugins {version('aoti-plugins')}"


def written_for(stated: object) -> types.SimpleNamespace:
    @hookimpl
    def aoti_targets() -> list[object]:
        return []

    return types.SimpleNamespace(AOTI_PLUGINS_API=stated, aoti_targets=aoti_targets)


def refusal(stated: object, origin: Origin = INSTALLED) -> str:
    with pytest.raises(PluginError) as caught:
        api_version.check_api_version(origin, written_for(stated))
    return str(caught.value)


def test_this_version() -> None:
    api_version.check_api_version(INSTALLED, written_for(api_version.CURRENT))
    assert api_version.OLDEST <= api_version.CURRENT


def test_too_new() -> None:
    assert refusal(api_version.CURRENT + 1) == (
        "plugin 'acme' of acme-kernels 2.1 was written for version "
        f"{api_version.CURRENT + 1} of the hooks; {OURS} has version {api_version.CURRENT}\n"
        "Upgrade aoti-plugins, install an older acme-kernels, "
        "or block the plugin with AOTI_PLUGINS_BLOCK=acme."
    )


def test_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_version, "OLDEST", 3)
    monkeypatch.setattr(api_version, "CURRENT", 4)
    assert refusal(2) == (
        "plugin 'acme' of acme-kernels 2.1 was written for version 2 of the hooks; "
        f"{OURS} works with versions 3 to 4\n"
        "Upgrade acme-kernels, uninstall it, or block the plugin with AOTI_PLUGINS_BLOCK=acme."
    )


@pytest.mark.parametrize("stated", ["1", True, 1.0])
def test_no_number(stated: object) -> None:
    assert f"says AOTI_PLUGINS_API = {stated!r}; expected a number like 1" in refusal(stated)


def test_an_installed_package_has_to_say() -> None:
    message = refusal(None)
    assert "does not say which version of the hooks it was written for" in message
    assert "'AOTI_PLUGINS_API = 1'" in message


def test_what_a_program_registers_may_say() -> None:
    manager = PluginManager(load_entry_points=False)
    manager.register(written_for(None), "silent")
    manager.register(written_for(api_version.CURRENT), "current")
    with pytest.raises(
        PluginError, match=r"plugin 'newer' was written for version 99[\s\S]*Upgrade"
    ):
        manager.register(written_for(99), "newer")
    assert [info.name for info in manager.plugins()] == ["current", "silent"]


def test_what_cannot_be_imported_may_need_a_newer_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_from_the_future.py").write_text("from aoti_plugins import GraphRewriter\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def entry(value: str) -> EntryPoint:
        return EntryPoint("acme", value, "aoti_plugins")

    with pytest.raises(PluginError, match=r"It may need a newer aoti-plugins\.$"):
        load_plugin(INSTALLED, entry("acme_from_the_future"))
    with pytest.raises(PluginError, match=r"AOTI_PLUGINS_BLOCK=acme\.$"):
        load_plugin(INSTALLED, entry("acme_that_is_nowhere"))
