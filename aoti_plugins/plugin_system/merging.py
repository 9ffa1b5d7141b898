"""Merge what several plugins offer under the same keys, or say who contradicts whom."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from aoti_plugins.errors import PluginConflictError
from aoti_plugins.plugin_system.origin import BLOCK_VARIABLE, Origin

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def merge_offers(
    offers: Iterable[tuple[Origin, K, V]],
    headline: Callable[[K], str],
    same: Callable[[V, V], bool] = lambda one, other: False,
    show: Callable[[V], str] = lambda value: "",
    built_in_yields: bool = False,
) -> dict[K, V]:
    """Turn offers into a dictionary that keeps their order.

    Args:
        offers: who offers which value under which key.
        headline: first line of the message about a contradiction in a key; the providers follow.
        same: whether two values under one key agree, so that both may be offered.
        show: text about a value that goes behind its provider.
        built_in_yields: whether what this package offers itself counts only where nobody else
            offers anything.

    Returns:
        From key to the value that was offered first.

    Raises:
        PluginConflictError: some keys are offered more than once; all are in the message, sorted.
    """
    by_key: dict[K, list[tuple[Origin, V]]] = {}
    for origin, key, value in offers:
        by_key.setdefault(key, []).append((origin, value))
    conflicts = []
    for key, found in by_key.items():
        if built_in_yields:
            found = by_key[key] = [one for one in found if not one[0].is_own] or found
        if not all(same(found[0][1], value) for _, value in found[1:]):
            lines = [f"{origin.provider}{show(value)}" for origin, value in found]
            conflicts.append(conflict_message(headline(key), lines, [o for o, _ in found]))
    if conflicts:
        raise PluginConflictError(tuple(sorted(conflicts)))
    return {key: found[0][1] for key, found in by_key.items()}


def conflict_message(headline: str, lines: Sequence[str], origins: Sequence[Origin]) -> str:
    """Write a message that lists providers and says what to do about them."""
    listed = "".join(f"\n  - {line}" for line in sorted(lines))
    return f"{headline}{listed}\n{_remedy(origins)}"


def _remedy(origins: Sequence[Origin]) -> str:
    distinct = sorted(set(origins), key=lambda origin: origin.key)
    if len(distinct) == 1:
        return distinct[0].remedy
    installed = [origin for origin in distinct if origin.distribution is not None]
    if not installed:
        return "Register only one of them."
    foreign = [origin for origin in installed if not origin.is_own]
    name = (foreign or installed)[-1].name
    return f"Uninstall one of them, or block it with {BLOCK_VARIABLE}={name}."
