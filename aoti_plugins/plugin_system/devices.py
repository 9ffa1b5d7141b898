"""Which devices there are: those of the installed packages, ours and others'.

A package offers one under the entry-point group ``aoti_plugins.devices``: its name, and where the
``Device`` is. Names are known without importing anything of it.
"""

from __future__ import annotations

import functools
import logging
from importlib.metadata import EntryPoint, entry_points

from aoti_plugins.device import Device
from aoti_plugins.errors import PluginConflictError, PluginError, UnsupportedError
from aoti_plugins.plugin_system.merging import conflict_message
from aoti_plugins.plugin_system.origin import OWN_DISTRIBUTION, Origin, normalize

ENTRY_POINT_GROUP = "aoti_plugins.devices"

logger = logging.getLogger(__name__)


def device_names() -> tuple[str, ...]:
    """Names of all installed devices, ours first."""
    return tuple(_entries())


def installed_device(name: str) -> Device:
    """Import a device by its name.

    Raises:
        UnsupportedError: there is none; the message lists those that there are.
        PluginError: it cannot be imported, or two packages bring it.
    """
    entries = _entries()
    if name not in entries:
        raise UnsupportedError(f"there is no device {name!r}; there are: {', '.join(entries)}")
    return _only(entries[name])


@functools.cache
def delegates() -> dict[str, Device]:
    """The devices that have a delegate on this system, by name; one that is broken is left out."""
    found = {}
    for name, entries in _entries().items():
        try:
            device = _only(entries)
        except PluginError as error:
            logger.warning("%s", error)
            continue
        if device.libraries:
            found[name] = device
    return found


def _entries() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_rank):
        found.setdefault(entry.name, []).append(entry)
    return found


def _only(entries: list[EntryPoint]) -> Device:
    if len(entries) > 1:
        origins = [origin_of(entry) for entry in entries]
        lines = [origin.provider for origin in origins]
        headline = f"device {entries[0].name!r} is provided by:"
        raise PluginConflictError((conflict_message(headline, lines, origins),))
    return load_device(entries[0])


def load_device(entry: EntryPoint) -> Device:
    """Import what an entry point names.

    Raises:
        PluginError: the import fails, or it is no ``Device`` of that name.
    """
    origin = origin_of(entry)
    try:
        device = entry.load()
    except Exception as error:
        raise PluginError(
            f"{origin} cannot be imported from {entry.value!r}: "
            f"{type(error).__name__}: {error}\n{origin.remedy}"
        ) from error
    if not isinstance(device, Device) or device.name != entry.name:
        raise PluginError(
            f"{origin}: {entry.value!r} is {device!r:.60}; expected an aoti_plugins.device.Device "
            f"with the name {entry.name!r}\n{origin.remedy}"
        )
    return device


def origin_of(entry: EntryPoint) -> Origin:
    """Where an entry point comes from."""
    dist = entry.dist
    return Origin(entry.name, dist.name if dist else None, dist.version if dist else None)


def _rank(entry: EntryPoint) -> tuple[bool, str, str]:
    distribution = normalize(entry.dist.name) if entry.dist else ""
    return distribution != OWN_DISTRIBUTION, distribution, entry.name
