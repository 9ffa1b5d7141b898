"""Inductor's options, checked before anything is asked or compiled."""

from __future__ import annotations

import types
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Union, get_origin


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what Inductor would refuse as it starts: names it has not, values of another type.

    Raises:
        TypeError: a value is of another type than the option.
        ValueError: an unknown name; similar ones are in the message.
    """
    from torch._inductor import config

    known = config.get_config_copy()
    for name, value in options.items():
        if name not in known:
            similar = get_close_matches(str(name), known, n=3)
            hint = f"; there are {', '.join(similar)}" if similar else ""
            raise ValueError(f"Inductor of this PyTorch has no option {name!r}{hint}")
        expected = config.get_type(name)
        if not _is_a(value, expected):
            raise TypeError(
                f"Inductor's option {name!r} is of type {_name(expected)}, found {value!r:.60} of "
                f"type {type(value).__name__}"
            )


def _is_a(value: object, expected: Any) -> bool:
    """Whether a value may be of a type; what cannot be told from an instance may be."""
    if isinstance(expected, types.UnionType) or get_origin(expected) is Union:
        return any(_is_a(value, one) for one in expected.__args__)
    if not isinstance(expected, type) or get_origin(expected) is not None:
        return True
    return isinstance(value, int | float if expected in (int, float) else expected)


def _name(expected: Any) -> str:
    return getattr(expected, "__name__", str(expected))
