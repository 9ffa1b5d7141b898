"""What the constants of weights that are laid out are called, by what they were made of."""

from __future__ import annotations


def prefix_of(source: str, bits: int) -> str:
    """What the names of all of them begin with.

    Args:
        source: name of the placeholder that held the weight.
        bits: 4 or 8.
    """
    return f"{source}_of_{bits}_bits"


def codes_name(source: str, bits: int) -> str:
    """The name of the codes; arguments as for ``prefix_of``."""
    return f"{prefix_of(source, bits)}_codes"
