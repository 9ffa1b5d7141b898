"""``aoti-plugins plugins``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from aoti_plugins.cli._inspection import inspect_plugins, library_problems
from aoti_plugins.cli._output import console, json_option, print_report, table
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.errors import PluginError
from aoti_plugins.plugin_system.manager import PluginManager
from aoti_plugins.plugin_system.registry import PluginInfo


@click.command()
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the installed plugins and what each provides.

    The hooks that offer something are called. The exit code is 1 if a plugin is broken or fails in
    one, or if plugins contradict each other: nothing can be lowered then. It is also 1 if programs
    would not find the kernel library of a package.
    AOTI_PLUGINS_BLOCK=name,... blocks plugins by entry-point or distribution name.
    """
    quiet()
    manager = inspect_plugins()
    report = {
        "plugins": [_plugin_facts(info) for info in manager.plugins()],
        "provided": {device: provided(manager, device) for device in manager.devices()},
        "conflicts": manager.conflicts(),
        "kernel_libraries": library_problems(manager),
    }
    print_report(report, as_json, _show)
    broken = any(info.error for info in manager.plugins())
    ctx.exit(int(broken or bool(report["conflicts"] or report["kernel_libraries"])))


def _plugin_facts(info: PluginInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "distribution": info.distribution,
        "version": info.version,
        "state": state(info),
        "hooks": list(info.hooks),
        "error": info.error,
    }


def state(info: PluginInfo) -> str:
    """Say in one word whether a plugin can be used."""
    if info.error:
        return "broken"
    return "blocked" if info.blocked else "ok"


def provided(manager: PluginManager, device: str) -> dict[str, list[str]]:
    """Name what all plugins together provide for a device; nothing where a conflict hides it."""
    sources: dict[str, Callable[[], Iterable[str]]] = {
        "targets": lambda: manager.targets(device),
        "fallback kernels": lambda: manager.fallback_kernels(device),
        "graph passes": lambda: (one.name for one in manager.graph_passes(device, [])),
        "decompositions": lambda: map(str, manager.decompositions(device)),
        "inductor options": lambda: manager.inductor_options(device, []),
    }
    result = {}
    for what, names in sources.items():
        try:
            result[what] = list(names())
        except PluginError:
            result[what] = []
    return result


def _show(report: dict[str, Any]) -> None:
    out = console()
    rows = [
        (
            plugin["name"],
            plugin["distribution"] or "this process",
            plugin["version"] or "",
            plugin["state"],
            ", ".join(hook.removeprefix("aoti_") for hook in plugin["hooks"]),
        )
        for plugin in report["plugins"]
    ]
    out.print(table("Plugins", ("name", "distribution", "version", "state", "hooks"), rows))
    found = [
        (device, what, len(names), _shortened(names))
        for device, kinds in report["provided"].items()
        for what, names in kinds.items()
        if names
    ]
    if found:
        out.print(table("Provided", ("device", "what", ">number", "names"), found))
    for plugin in report["plugins"]:
        if plugin["error"]:
            out.print(f"broken: {plugin['error']}\n", style="red", markup=False)
    for conflict in report["conflicts"]:
        out.print(f"conflict: {conflict}\n", style="red", markup=False)
    for problem in report["kernel_libraries"]:
        out.print(f"kernel library: {problem}\n", style="red", markup=False)


def _shortened(names: list[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, …" if len(names) > most else shown
