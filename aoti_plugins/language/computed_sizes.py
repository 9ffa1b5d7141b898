"""Sizes that an exported decoder would compute from its inputs."""

from __future__ import annotations

from collections.abc import Iterable

from torch.export import ExportedProgram
from torch.utils._sympy.symbol import SymT, symbol_is_type

from aoti_plugins.errors import CheckpointError


def check_sizes(programs: Iterable[ExportedProgram], name: str) -> None:
    """Refuse a decoder whose code asks in Python where it is in the text.

    Such a number becomes the size of a tensor, and torch.export promises that it is 2 or more: the
    program would end at the first single token.

    Args:
        programs: the decoder's methods; their number of tokens is no such size.
        name: the model's class.

    Raises:
        CheckpointError: it computes a size.
    """
    symbols = [one for program in programs for one in program.range_constraints]
    if any(symbol_is_type(one, SymT.UNBACKED_INT) for one in symbols):
        raise CheckpointError(
            f"{name} makes tensors as long as the text so far, which only the cache knows; of such "
            "code no program can be made"
        )
