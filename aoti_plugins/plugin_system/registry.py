"""The set of registered plugins: loads it, lists it, and calls it plugin by plugin.

``manager.py`` puts typed hook calls on top of this.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pluggy

from aoti_plugins import hooks
from aoti_plugins.errors import AotiPluginsError, PluginError
from aoti_plugins.plugin_system import discovery
from aoti_plugins.plugin_system.device_plugin import DevicePlugin
from aoti_plugins.plugin_system.devices import device_names
from aoti_plugins.plugin_system.origin import BLOCK_VARIABLE, Origin, normalize

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class PluginInfo:
    """What is known about one plugin.

    Attributes:
        name: entry-point name, or the name it was registered under.
        distribution: distribution it comes from; ``None`` when registered by a program.
        version: version of the distribution.
        hooks: names of the hooks it implements, sorted; empty when it was not loaded.
        blocked: it was blocked by name, and not loaded.
        error: why it cannot be used, what its hooks raised included, or ``None``.
    """

    name: str
    distribution: str | None
    version: str | None
    hooks: tuple[str, ...] = ()
    blocked: bool = False
    error: str | None = None


class PluginRegistry:
    """Plugins and their order.

    Attributes:
        hook: pluggy's relay, for calls without the checks that ``PluginManager`` makes.
    """

    def __init__(self, load_entry_points: bool = True, block: Collection[str] = ()) -> None:
        """Load the installed plugins.

        Args:
            load_entry_points: load what installed distributions offer, except what the environment
                variable ``AOTI_PLUGINS_BLOCK`` (names separated by commas) blocks.
            block: further entry-point or distribution names not to load.

        Raises:
            PluginError: some plugins are broken; the message lists all of them.
        """
        self._pluggy = pluggy.PluginManager(discovery.ENTRY_POINT_GROUP)
        self._pluggy.add_hookspecs(hooks)
        self.hook = self._pluggy.hook
        self._infos: dict[str, PluginInfo] = {}
        self._origins: dict[str, Origin] = {}
        if load_entry_points:
            errors = self._load_installed(block)
            if errors:
                raise PluginError("\n\n".join(sorted(map(str, errors)))) from errors[0]

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin that no distribution offers. It is asked before those added earlier.

        Args:
            plugin: a module or an instance whose functions carry ``@hookimpl``.
            name: stands for the plugin in messages; not in use yet.

        Raises:
            PluginError: the name is in use, or the plugin does not fit the hook specs.
        """
        if name in self._infos:
            raise PluginError(f"a plugin named {name!r} is registered already; use another name")
        self._add(Origin(name), plugin)

    def unregister(self, name: str) -> None:
        """Remove a plugin that was added with ``register``."""
        if name not in self._infos:
            raise PluginError(f"no plugin named {name!r} was registered by this program")
        self._pluggy.unregister(name=name)
        del self._infos[name]

    @contextmanager
    def registered(self, plugin: object, name: str) -> Iterator[None]:
        """Register a plugin for the duration of a ``with`` block, for all threads."""
        self.register(plugin, name)
        try:
            yield
        finally:
            self.unregister(name)

    def plugins(self) -> list[PluginInfo]:
        """List all plugins, blocked and broken ones included, in the order they are asked."""
        return list(self._infos.values())[::-1]

    def devices(self) -> tuple[str, ...]:
        """Names of the installed devices, and of those whose plugin a program registered."""
        loaded = (p for _, p in self._pluggy.list_name_plugin() if isinstance(p, DevicePlugin))
        return tuple(dict.fromkeys([*device_names(), *sorted(p.device.name for p in loaded)]))

    def _load_installed(self, block: Collection[str]) -> list[PluginError]:
        names = [*os.environ.get(BLOCK_VARIABLE, "").split(","), *block]
        blocked = {normalize(name) for name in names if name.strip()}
        unused = set(blocked)
        errors = []
        for origin, entry_point in discovery.installed_plugins():
            if origin.is_blocked_by(blocked):
                unused = {name for name in unused if not origin.is_blocked_by({name})}
                self._note(origin, blocked=True)
                continue
            try:
                self._add(origin, discovery.load_plugin(origin, entry_point))
            except PluginError as error:
                self._note(origin, error=str(error))
                errors.append(error)
        if unused:
            logger.warning(
                "nothing to block: no installed plugin is called %s", ", ".join(sorted(unused))
            )
        return errors

    def _add(self, origin: Origin, plugin: object) -> None:
        implemented = discovery.check_plugin(origin, plugin)
        try:
            self._pluggy.register(plugin, origin.key)
        except ValueError as error:  # one object offered under two names
            other = self._origins.get(self._pluggy.get_name(plugin) or "", "another plugin")
            raise PluginError(
                f"{origin} is the same object as {other}; offer it once\n{origin.remedy}"
            ) from error
        self._origins[origin.key] = origin
        self._note(origin, hooks=implemented)

    def _note(self, origin: Origin, **facts: Any) -> None:
        info = PluginInfo(origin.name, origin.distribution, origin.version)
        self._infos[origin.key] = replace(info, **facts)

    def _take_out(self, key: str, error: str) -> None:
        """Go on without a plugin that was loaded."""
        self._pluggy.unregister(name=key)
        self._infos[key] = replace(self._infos[key], error=error)

    def _first(
        self, hook_name: str, check: Callable[[object], T], **arguments: object
    ) -> tuple[Origin, T]:
        for answer in self._each(hook_name, check, **arguments):
            return answer
        asked = [info.name for info in self.plugins() if hook_name in info.hooks]
        blocked = [info.name for info in self.plugins() if info.blocked]
        raise PluginError(
            f"no plugin answers hook {hook_name!r}{_show(arguments)}.\n"
            f"Asked: {', '.join(asked) or 'none'}. Blocked: {', '.join(blocked) or 'none'}.\n"
            "Install a plugin that answers, or unblock it."
        )

    def _each(
        self, hook_name: str, check: Callable[[object], T], **arguments: object
    ) -> Iterator[tuple[Origin, T]]:
        """Call plugin by plugin, so that it is known who raised and who returned what."""
        for impl in self._implementations(hook_name):
            result = self._call(hook_name, impl, check, arguments)
            if result is not None:
                yield self._origins[impl.plugin_name], result

    def _implementations(self, hook_name: str) -> list[pluggy.HookImpl]:
        caller: pluggy.HookCaller = getattr(self.hook, hook_name)
        return caller.get_hookimpls()[::-1]

    def _call(
        self,
        hook_name: str,
        impl: pluggy.HookImpl,
        check: Callable[[object], T],
        arguments: Mapping[str, object],
    ) -> T | None:
        try:
            result = impl.function(*(arguments[name] for name in impl.argnames))
            return None if result is None else check(result)
        except Exception as error:
            if hook_name == "aoti_preprocess" and isinstance(error, AotiPluginsError):
                raise  # a lowering says for itself what went wrong and where
            origin = self._origins[impl.plugin_name]
            raise PluginError(
                f"{origin} failed in hook {hook_name!r}{_show(arguments)}: "
                f"{type(error).__name__}: {error}\n{origin.remedy}"
            ) from error


def _show(arguments: Mapping[str, object]) -> str:
    texts = [f"{name}={value!r}" for name, value in arguments.items() if isinstance(value, str)]
    return f" ({', '.join(texts)})" if texts else ""
