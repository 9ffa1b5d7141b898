"""Weights of 4 and 8 bits as constants of a program: ``docs/small-weights.md``."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.program_constants import add_constant
from aoti_plugins.lowering.small_weights.packed import pack
from aoti_plugins.lowering.small_weights.weight import SmallWeight

_PACKED = "_packed"
_PACKED_CODES = f"{_PACKED}_codes"


def packed_constants(
    program: ExportedProgram, weight: SmallWeight
) -> tuple[Node, Node, Node | None]:
    """Codes, scales and zeros for ``aoti_plugins::packed_weight``.

    A weight that has become constants before is these once more: whatever reads it reads them.
    """
    name = f"{weight.name}{_PACKED}"
    codes = pack(weight.codes, weight.bits, weight.group_size)
    zero = None
    if weight.zero is not None:
        zero = add_constant(program, f"{name}_zero", weight.zero.contiguous())
    scale = add_constant(program, f"{name}_scale", weight.scale.contiguous())
    return add_constant(program, f"{weight.name}{_PACKED_CODES}", codes), scale, zero


def source_name(table: Node) -> str:
    """The name of the placeholder whose codes a table has, packed or as they were."""
    return table.name.removesuffix(_PACKED_CODES)
