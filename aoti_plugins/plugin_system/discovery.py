"""Find and import the plugins of installed distributions, and check how they are written."""

from __future__ import annotations

import difflib
import inspect
from importlib.metadata import EntryPoint, entry_points

import pluggy

from aoti_plugins import hooks
from aoti_plugins.errors import PluginError
from aoti_plugins.plugin_system import devices
from aoti_plugins.plugin_system.api_version import check_api_version
from aoti_plugins.plugin_system.device_plugin import DevicePlugin
from aoti_plugins.plugin_system.origin import OWN_DISTRIBUTION, Origin, normalize

ENTRY_POINT_GROUP = "aoti_plugins"


def installed_plugins() -> list[tuple[Origin, EntryPoint]]:
    """List the entry points of all installed distributions, without importing any.

    Returns:
        Our own distribution first, then by distribution and entry-point name backwards: pluggy
        asks the plugin that came last first, so plugins are asked in alphabetical order and the
        built-in ones last, whatever the order of ``sys.path``.
    """
    groups = (ENTRY_POINT_GROUP, devices.ENTRY_POINT_GROUP)
    found = [(devices.origin_of(one), one) for g in groups for one in entry_points(group=g)]

    def rank(item: tuple[Origin, EntryPoint]) -> tuple[bool, str, str]:
        distribution = normalize(item[0].distribution or "")
        return distribution == OWN_DISTRIBUTION, distribution, item[0].name

    return sorted(found, key=rank, reverse=True)


def load_plugin(origin: Origin, entry_point: EntryPoint) -> object:
    """Import a plugin, or the device that one is made of.

    Raises:
        PluginError: the import fails, for whatever reason; the cause is chained.
    """
    if entry_point.group == devices.ENTRY_POINT_GROUP:
        return DevicePlugin(devices.load_device(entry_point))
    try:
        return entry_point.load()
    except Exception as error:
        newer = isinstance(error, ImportError) and (error.name or "").startswith("aoti_plugins")
        raise PluginError(
            f"{origin} cannot be imported from {entry_point.value!r}: "
            f"{type(error).__name__}: {error}\n{origin.remedy}"
            + (f" It may need a newer {OWN_DISTRIBUTION}." if newer else "")
        ) from error


def check_plugin(origin: Origin, plugin: object) -> tuple[str, ...]:
    """Check what a plugin was written for, and its functions against the hook specs.

    Returns:
        The names of the hooks that it implements, sorted.

    Raises:
        PluginError: one message with everything that is wrong.
    """
    check_api_version(origin, plugin)
    implemented, problems = [], []
    scratch = pluggy.PluginManager(ENTRY_POINT_GROUP)
    scratch.add_hookspecs(hooks)
    if inspect.isclass(plugin):
        problems.append("it is a class; offer a module, or an instance of the class")
    else:
        for attribute in dir(plugin):
            options = scratch.parse_hookimpl_opts(plugin, attribute)
            if options is not None:
                hook_name = options.get("specname") or attribute
                implemented.append(hook_name)
                problems += _hookimpl_problems(hook_name, getattr(plugin, attribute), options)
            elif attribute in SPEC_ARGUMENTS and inspect.isroutine(getattr(plugin, attribute)):
                problems.append(f"function {attribute!r} lacks @hookimpl, so nobody would call it")
        if not implemented and not problems:
            problems.append("it implements no hook")
    if not problems:
        try:
            scratch.register(plugin, origin.key)
            scratch.check_pending()
        except pluggy.PluginValidationError as error:  # what the checks above do not know about
            problems.append(str(error))
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in sorted(problems))
        raise PluginError(f"{origin} is not usable:{lines}\n{origin.remedy}")
    return tuple(sorted(implemented))


def _hookimpl_problems(hook_name: str, function: object, options: pluggy.HookimplOpts) -> list[str]:
    if hook_name not in SPEC_ARGUMENTS:
        return [] if options.get("optionalhook") else [_unknown_hook(hook_name)]
    problems = []
    if options.get("wrapper") or options.get("hookwrapper"):
        problems.append(f"hook {hook_name!r} is implemented as a wrapper, which is not supported")
    known = SPEC_ARGUMENTS[hook_name]
    for name, parameter in inspect.signature(function).parameters.items():  # type: ignore[arg-type]
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            bare = str(parameter.replace(annotation=parameter.empty))
            problems.append(f"hook {hook_name!r} never fills argument {bare!r}")
        elif name not in known:
            problems.append(
                f"hook {hook_name!r} has no argument {name!r}; it has ({', '.join(known)})"
            )
        elif parameter.default is not parameter.empty:
            problems.append(
                f"hook {hook_name!r} does not pass argument {name!r} while it has a default value"
            )
    return problems


def _unknown_hook(hook_name: str) -> str:
    close = difflib.get_close_matches(hook_name, SPEC_ARGUMENTS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(SPEC_ARGUMENTS)}"
    return f"hook {hook_name!r} does not exist; {hint}"


def _spec_arguments() -> dict[str, tuple[str, ...]]:
    manager = pluggy.PluginManager(ENTRY_POINT_GROUP)
    return {
        name: tuple(inspect.signature(function).parameters)
        for name, function in vars(hooks).items()
        if manager.parse_hookspec_opts(hooks, name) is not None
    }


SPEC_ARGUMENTS = _spec_arguments()
"""From the name of each hook to the names of its arguments, as in ``hooks.py``."""
